// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The smallest budget that a step fits into, for the error of a budget that is too small.
#ifndef REPRISE_ENGINE_BUDGET_SMALLEST_BUDGET_H_
#define REPRISE_ENGINE_BUDGET_SMALLEST_BUDGET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/engine/budget/step_limit.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

struct SmallestBudget {
  // Both beyond the bytes before the step.
  std::int64_t growth;        // of the plan with the smallest peak found
  std::int64_t least_growth;  // no plan has a smaller one
  bool is_estimate;           // of a backward that has not been observed to its end
  std::string peak;           // of the plan, explained in lines
};

// Plans thoroughly. Returns nothing if no plan is valid.
std::optional<SmallestBudget> find_smallest_budget(const planner::Trace& trace,
                                                   std::vector<planner::StoreOption> stores,
                                                   bool is_estimate);

// An allocation of a step that its budget has no room for.
struct Shortage {
  std::int64_t reruns = 0;  // of operators, if these are too many instead
  std::int64_t bytes = 0;
  std::int64_t bytes_in_use = 0;
  StepLimit limit = {};
  std::int64_t bytes_before_step = 0;
  bool has_found_rewritten = false;  // by the step: see RewrittenMemory
};

// A step ends with the error, too, when the guard has had so many operators run again, per operator
// of forward: 100, unless a test sets fewer.
std::int64_t most_reruns();
void set_most_reruns(std::int64_t count);

// Returns the message of the error. smallest: nothing if it is not known.
std::string shortage_message(const Shortage& shortage,
                             const std::optional<SmallestBudget>& smallest);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_SMALLEST_BUDGET_H_
