// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans for a recorded step: plain data in, plain data out, so that any thread can plan.
#ifndef REPRISE_ENGINE_BUDGET_STEP_PLANNER_H_
#define REPRISE_ENGINE_BUDGET_STEP_PLANNER_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/planner/planner.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// The aim of plans.
struct BudgetAim {
  std::int64_t peak_bytes;
  std::optional<double> max_overhead;  // instead of peak_bytes
  bool varies = false;                 // peak_bytes is that of one step: others have other ones
};

struct PlanRequest {
  std::int64_t room = 0;                              // for growth
  std::optional<double> max_overhead = std::nullopt;  // instead of the room
  std::int64_t excess_bytes = 0;  // that the room leaves for what plans have missed
  int alike = 1;                  // steps in flight that share the room
  std::int64_t held_error = 0;    // of each but one, measured less simulated
  // By value of the trace, those that stay until backward where the room allows for it, see
  // Note [Shared beginnings].
  std::vector<bool> kept = {};
  double seconds = std::numeric_limits<double>::infinity();  // that the search may take, about
};

struct FoundPlan {
  planner::Plan plan;           // without what has no effect
  std::vector<bool> kept = {};  // those of the request, if the plan retains them
  planner::Simulation simulation;
  double bound_seconds = 0;
  std::int64_t held_bytes = 0;  // by the step, when forward has ended
  std::vector<planner::Fetch> fetches = {};
  bool is_smallest = false;   // no plan fits into the room: the one with the smallest peak
  bool is_shortened = false;  // the search: there was too little time for a usual one
};

// Returns the simulations of a planner for which planning takes about as long as two steps, or as
// `most_seconds` if these are less, if a plan is found.
int simulations_for(const planner::Trace& trace,
                    double most_seconds = std::numeric_limits<double>::infinity());

// Returns nothing if backward reads a value that cannot be computed again: no plan is valid.
std::optional<planner::Solution> smallest_peak_of(planner::Planner& planner);

// Returns the trace of a step in which nothing is evicted.
planner::Trace without_evictions(planner::Trace trace);

// Marks values that are gone when backward begins, by value, as evicted. Those that the program
// holds, or that cannot be computed again, are there.
void mark_evicted(planner::Trace& trace, const std::vector<bool>& is_gone);

// Not thread-safe: of one thread at a time.
class StepPlanner {
 public:
  StepPlanner(std::shared_ptr<const planner::Trace> trace,
              std::vector<planner::StoreOption> stores);

  // Returns a plan for the request, or, if none is found, the one with the smallest peak; nothing
  // if no plan is valid.
  std::optional<FoundPlan> find(const PlanRequest& request);
  // Returns this plan; nothing if it is not valid.
  std::optional<FoundPlan> simulate(const planner::Plan& plan, double bound_seconds) const;
  // Returns the plan of a step without recomputation, if that is valid.
  std::optional<FoundPlan> plain() const;
  // Returns the seconds of a step with so much room; nothing if no plan is found.
  std::optional<double> seconds_within(std::int64_t room);

  // Of the step, whatever has been asked for.
  const planner::Simulator& simulator() const { return simulator_; }

 private:
  // Has the planner retain these values, and search with at least as many simulations. Otherwise it
  // keeps all that it has found.
  void prepare(const std::vector<bool>& kept, int simulations);
  // Forgets all that the planner has found. kept: by plans from now on.
  void renew(std::vector<bool> kept);
  std::optional<planner::Solution> find_within(const PlanRequest& request);
  std::optional<planner::Solution> find_in_flight(const PlanRequest& request);
  // Returns the bytes of the step in memory when backward begins.
  std::int64_t held_by(const planner::Plan& plan, const planner::Simulator& simulator) const;
  FoundPlan describe(const planner::Plan& plan, const planner::Simulation& simulation) const;

  const std::shared_ptr<const planner::Trace> trace_;  // the simulator refers to it
  const std::vector<planner::StoreOption> stores_;
  const planner::Simulator simulator_;
  int simulations_ = 0;                                  // of the planner
  std::vector<bool> kept_;                               // by its plans
  std::shared_ptr<const planner::Trace> planned_trace_;  // in which the program holds them
  std::unique_ptr<planner::Planner> planner_;            // null until it is asked
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_PLANNER_H_
