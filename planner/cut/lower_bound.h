// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A bound on how fast any plan within a budget can be.
#ifndef REPRISE_PLANNER_CUT_LOWER_BOUND_H_
#define REPRISE_PLANNER_CUT_LOWER_BOUND_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/cut/retention_cut.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Returns a lower bound on the seconds that recomputation and stores add to a step whose peak is at
// most `peak_bytes`, for any plan (Plan, in plan.h) with these stores. Infinity if there is no such
// plan for certain. `trace` must be valid.
//
// Lagrangian: at an instant of backward, all that its later operators demand of forward is in
// memory, beside what is there in any plan, unless it is recomputed later. At each price per byte
// the minimum cut less the price of that room is a bound. The best price is searched for, and the
// best of several instants: the turnaround, at which all of forward has run, and the operators
// of backward around which there is most in memory. Bounds are rounded down.
//
// Tight where the peak is at one instant; not where budgets are so small that each part of backward
// is at the peak, or that operators must run more than twice.
double lower_bound(const Trace& trace, const TraceFacts& facts,
                   const std::vector<planner::StoreOption>& stores, std::int64_t peak_bytes);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CUT_LOWER_BOUND_H_
