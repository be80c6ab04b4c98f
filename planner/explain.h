// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: explain.h
//
// What becomes of an operator's results under a plan, and why, and what its peak consists of, as
// text.
//
// Not for programs that act on the answer: read Plan::choices.
//
// Example:
//
//   const auto found = planner.plan(2LL << 30);
//   std::cout << planner::explain(planner.simulator(), found->plan, "aten::gelu");
//
// Thread-safety: thread-safe.
#ifndef REPRISE_PLANNER_EXPLAIN_H_
#define REPRISE_PLANNER_EXPLAIN_H_

#include <string>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner {

// Returns a paragraph for each operator that `op` names: one by its position in the trace, with or
// without '#', or all with that name. It has the operator's time, how often it runs again, and of
// each result the bytes, whether it is retained, stored, recomputed or not needed, from when to
// when that takes or saves memory, the time to recompute it, and its readers.
//
// Throws: std::invalid_argument if there is no such operator, or the plan is not one for the
//   simulator's trace.
[[nodiscard]] REPRISE_API std::string explain(const Simulator& simulator, const Plan& plan,
                                              const std::string& op);

// Returns a text about the peak of a step with this plan: the operator that runs then, the largest
// values in memory, each with its bytes, its operator and what the plan makes of it, and what would
// lower the peak, the remedy for most bytes first.
//
// Throws: std::invalid_argument if the plan is not one for the simulator's trace.
[[nodiscard]] REPRISE_API std::string explain_peak(const Simulator& simulator, const Plan& plan);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_EXPLAIN_H_
