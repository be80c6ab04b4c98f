// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A step that has been recorded, and the plan for its next run.
#ifndef REPRISE_ENGINE_BUDGET_KNOWN_STEP_H_
#define REPRISE_ENGINE_BUDGET_KNOWN_STEP_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/budget/step_script.h"
#include "reprise/engine/budget/steps_in_flight.h"
#include "reprise/engine/budget/store_rates.h"
#include "reprise/planner/format/saved_step.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// The aim of plans.
struct BudgetAim {
  std::int64_t peak_bytes;
  std::optional<double> max_overhead;  // instead of peak_bytes
  bool varies = false;                 // peak_bytes is that of one step: others have other ones
};

// Of a recorded step's backward, that which is not observed is an estimate.
enum class RecordedBackward {
  kWhole,
  kUnfinished,  // it has not come to its end
  kUnobserved,  // it runs on another thread than forward, or not through the default engine
};

struct RecordedStep {
  StepScript script;
  planner::Trace trace;
  RecordedBackward backward;

  // A later recording would tell no more of backward than this one.
  bool is_final() const { return backward != RecordedBackward::kUnfinished; }
};

// One of the stores that a plan may use.
struct PlannedStore {
  int number;
  double put_seconds_per_byte;
  bool is_overlapped;
  bool keeps_last;  // until it is given another tensor
};

// When backward reads value number `trigger` of the script for the time number `reads`, it starts
// to fetch another one.
struct PlannedFetch {
  std::uint32_t trigger;
  int reads;
  std::uint32_t number;

  std::pair<std::uint32_t, int> key() const { return {trigger, reads}; }
};

// Before call number `call` of the script, the value that a backward inside forward has read, and
// that the plan does not retain, is freed.
struct PlannedRelease {
  std::uint32_t call;
  std::uint32_t number;
};

// A plan as a step carries it out. Does not change.
struct StepPlan {
  std::shared_ptr<const StepScript> script;
  std::vector<planner::Choice> choices;  // by value of the script
  std::vector<PlannedStore> stores;      // none if it uses none
  std::vector<PlannedFetch> fetches;     // by trigger and reads
  std::vector<PlannedRelease> releases;  // by call
  std::int64_t peak_growth;              // the predicted peak beyond the bytes before the step
  std::int64_t peak_error;               // in it: measured less simulated, in the last step
  InFlight in_flight;                    // that the plan is for
  std::int64_t base_rise = 0;  // of the bytes before the step, by steps that end until its backward
  double seconds;
  double plain_seconds;         // of the step without recomputation
  double bound_seconds;         // of any plan within the same peak
  double planning_seconds = 0;  // of the host; 0: it was made for an earlier step
};

// What was measured in a step that followed a plan from its first to its last operator.
struct MeasuredStep {
  std::int64_t bytes_before;  // without those of steps in flight
  InFlight in_flight;
  std::optional<std::int64_t> held_bytes;  // when forward had ended, if nothing was evicted
  // When backward began: by how much more was in use than when the step began, without what steps
  // in flight held.
  std::optional<std::int64_t> rise_bytes;
  std::int64_t growth;            // beyond the bytes before the step
  bool is_whole = true;           // that is the plan's: it was followed then, and nothing is spare
  std::int64_t shortage_bytes;    // the most that the guard had to find at once
  std::optional<double> seconds;  // of the step, unless it was recorded
};

// Returns the simulations of a planner for which planning takes about as long as two steps, if a
// plan is found.
int simulations_for(const planner::Trace& trace);

// Returns nothing if backward reads a value that cannot be computed again: no plan is valid.
std::optional<planner::Solution> smallest_peak_of(planner::Planner& planner);

// Returns the trace of a step in which nothing is evicted.
planner::Trace without_evictions(planner::Trace trace);

// Marks values that are gone when backward begins, by value, as evicted. Those that the program
// holds, or that cannot be computed again, are there.
void mark_evicted(planner::Trace& trace, const std::vector<bool>& is_gone);

// Not thread-safe.
class KnownStep {
 public:
  // rates: of the stores that plans may use.
  KnownStep(RecordedStep recorded, const StoreRates& rates);
  // A step of an earlier process, with the script of its operators in this one.
  KnownStep(planner_internal::SavedStep saved, StepScript script, const StoreRates& rates);

  // Returns what a later process needs, but for the script.
  planner_internal::SavedStep saved() const;

  const std::shared_ptr<const StepScript>& script() const { return script_; }
  // Returns the last plan, or null.
  std::shared_ptr<const StepPlan> plan() const { return plan_; }
  // Returns the trace of the step without recomputation.
  planner::Trace trace() const;
  int recordings() const { return recordings_; }  // that are final
  bool is_backward_estimated() const { return backward_ != RecordedBackward::kWhole; }
  // The last plan, for the trace; null if none is valid.
  const planner::Plan* plan_for_trace() const { return plan_ == nullptr ? nullptr : &reduced_; }
  // Returns those that plans may use.
  const std::vector<planner::StoreOption>& stores() const { return planner_->simulator().stores(); }

  // For a report.
  struct Summary {
    std::int64_t retained = 0;  // values, in forward
    std::int64_t retained_bytes = 0;
    std::int64_t stored = 0;  // of these, in stores
    std::int64_t stored_bytes = 0;
    std::int64_t repeated = 0;  // runs of operators
    std::string peak_operator;
    bool is_backward_estimated = false;
    std::int64_t more_bytes = 0;              // a tenth of those for activations
    std::optional<double> seconds_with_more;  // of a step with them
  };
  // Of the last plan. Plans once more.
  Summary summarize(const BudgetAim& aim);

  // See MemoryBudget::explain().
  std::string explain(const std::string& op);

  // The same step has been recorded again.
  void add_recording(RecordedStep recorded, const StoreRates& rates);

  // A step that follows this plan has exceeded the budget. If the plan uses stores, whose threads
  // may take longer than measured, later plans use none.
  void note_failure(const StepPlan& plan);

  // Returns the plan for a step that starts with `bytes_before` in use: within the aim, or, if none
  // is found, the one with the smallest peak. Null if no plan is valid. lost: by number, the values
  // that are gone when the step is known to be this one, see Note [Shared beginnings].
  std::shared_ptr<const StepPlan> plan_for(const BudgetAim& aim, std::int64_t bytes_before,
                                           const std::vector<bool>& lost);

  // Later plans are for as many. See RecentlyInFlight.
  void note_in_flight(const InFlight& seen, std::int64_t base_bytes) {
    in_flight_.note(seen, base_bytes);
  }

  // Later plans leave as much more room as this step needed beyond its prediction, and predict as
  // much more time.
  void calibrate(const StepPlan& plan, const MeasuredStep& measured);

 private:
  void replace(RecordedStep recorded, const StoreRates& rates);
  // Of the plan, for one step, or for all that are in flight.
  std::int64_t held_growth() const { return simulated_held_ + held_error_; }
  std::int64_t growth_in_flight() const {
    return planned_growth_ + (in_flight_.most().alike - 1) * held_growth();
  }
  std::int64_t rise_by_others(const MeasuredStep& measured);
  std::optional<planner::Solution> find_plan_in_flight();
  std::int64_t held_by(const planner::Plan& plan) const;
  // usual_room: what a step has that begins with the most bytes in use of recent ones.
  bool needs_plan(std::int64_t room, std::int64_t usual_room, const BudgetAim& aim,
                  const std::vector<bool>& lost) const;
  bool counts_on(const std::vector<bool>& lost) const;
  void mark_lost(const std::vector<bool>& lost);
  std::int64_t room_to_plan(std::int64_t room, const BudgetAim& aim) const;
  void make_planner(std::vector<planner::StoreOption> stores);
  // Forgets all that the planner has found.
  void renew_planner(std::vector<planner::StoreOption> stores);
  void make_plan(const BudgetAim& aim);
  void set_plan(const planner::Plan& plan, const planner::Simulation& simulation,
                double bound_seconds);
  void adopt(const planner_internal::SavedPlan& saved);
  std::optional<planner::Solution> find_plan(const BudgetAim& aim);
  // Returns nothing if no plan is valid.
  std::optional<planner::Solution> find_plan_or_smallest(const BudgetAim& aim);
  planner::Choice choice_of(planner::ValueId value) const;
  void add_stores(StepPlan& plan) const;
  std::vector<PlannedFetch> fetches() const;
  std::vector<PlannedRelease> releases(const std::vector<planner::Choice>& choices) const;

  std::shared_ptr<const StepScript> script_;
  std::unique_ptr<planner::Trace> trace_;  // the planner refers to it
  std::unique_ptr<planner::Planner> planner_;
  int simulations_ = 0;               // of the planner
  std::vector<PlannedStore> stores_;  // those of the planner
  bool uses_stores_ = true;
  int recordings_ = 0;
  RecordedBackward backward_;
  std::shared_ptr<StepPlan> plan_;
  planner::Plan reduced_;            // its choices
  std::int64_t room_ = -1;           // for growth, that the plan was made for; negative: none was
  std::int64_t planned_growth_ = 0;  // of the plan, as simulated
  std::int64_t simulated_held_ = 0;  // by the plan, when forward has ended
  std::int64_t held_error_ = 0;      // measured less simulated
  std::int64_t own_rise_ = std::numeric_limits<std::int64_t>::max();  // the least that was measured
  RecentlyInFlight in_flight_;
  std::int64_t plain_growth_ = 0;  // of the step without recomputation
  bool is_smallest_ = false;       // no plan fits into the room: the one with the smallest peak
  int visits_ = 0;
  int plans_made_anew_ = 0;          // since the last recording
  std::int64_t excess_bytes_ = 0;    // of measured peaks over predicted ones
  std::int64_t least_excess_bytes_;  // with less there has been a shortage
  double excess_seconds_ = 0;        // of measured times over simulated ones
  int timed_steps_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_KNOWN_STEP_H_
