// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: planner.h
//
// What to retain, recompute and store so that a step's peak stays within a budget of bytes, and the
// step is as fast as can be.
//
//   Planner planner(trace);
//   if (const std::optional<Solution> found = planner.plan(2LL << 30)) {
//     std::cout << found->simulation.seconds << " s, at most " << found->gap_seconds()
//               << " s slower than any other plan\n";
//   }
//
// Several methods propose plans: minimum cuts at one price per byte, and at prices that follow the
// memory over backward; eviction at the peak; a dynamic programme over a chain of regions; and
// local search from the best of them. The simulator (simulator.h) decides. Everything that one call
// finds is considered by later ones, so a larger budget is never slower than a smaller one that was
// asked for before it. Deterministic: the same calls give the same plans on each machine.
//
// Thread-safety: not thread-safe; an instance per thread.
#ifndef REPRISE_PLANNER_PLANNER_H_
#define REPRISE_PLANNER_PLANNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::planner {

struct PlannerOptions {
  std::vector<StoreOption> stores = {};
  // Simulations per budget, about; the first call makes up to three times as many, and traces of
  // more than 2,000 operators have fewer. More find faster plans.
  int max_simulations = 2000;
};

struct Solution {
  Plan plan;
  Simulation simulation;
  std::string method;  // that found it

  // A lower bound on the seconds of a step with any plan within the budget that was asked for.
  double bound_seconds = 0;

  double gap_seconds() const { return simulation.seconds - bound_seconds; }
};

class REPRISE_API Planner {
 public:
  // Throws std::invalid_argument if the trace is not valid. `trace` must outlive the planner.
  explicit Planner(const Trace& trace, PlannerOptions options = {});
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;
  ~Planner();

  const Simulator& simulator() const;

  // Returns the fastest plan found whose peak is at most `peak_bytes`, or nothing if none is found;
  // smallest_peak() says then what is possible.
  std::optional<Solution> plan(std::int64_t peak_bytes);

  // Returns the plan with the smallest peak found. Its bound is for that peak. Throws
  // std::invalid_argument if no plan is valid: backward reads what cannot be had there.
  Solution smallest_peak();

  // Returns bytes below which no plan's peak can be, rounded down by up to a thousandth.
  std::int64_t least_peak_bytes();

  // Returns the plan with the smallest peak among those whose steps take at most
  // (1 + max_overhead) times the step without recomputation; the fastest plan if there is none.
  // Throws std::invalid_argument if max_overhead is negative or not a number.
  Solution plan_within_overhead(double max_overhead);

  // Returns the best plans for `points` budgets (at least 2), evenly spaced from the smallest peak
  // to the peak without recomputation, by rising peak: none is slower than one before it, and of
  // plans that are no better than another one only that one is returned.
  std::vector<Solution> frontier(int points);

  // Returns the plan of frontier(points) that is nearest to no overhead and no memory, both scaled
  // to the range of the frontier.
  Solution knee(int points = 20);

  // Frees the tables of the dynamic programme, tens of megabytes for a chain of many regions, which
  // later calls make again. What has been found stays.
  void release_memory();

 private:
  class REPRISE_LOCAL Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLANNER_H_
