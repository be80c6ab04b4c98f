// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The results that a region saves within its budget.
//
// Note [Worth]: a replay runs all operators whose results backward needs, directly or for other
// results, but those whose results are saved. So saving a result spares the time of its operator,
// and of the operators that nobody else needs: a matmul whose result goes only into an addition is
// spared by saving the sum, which is no larger, and backward reads no result of the matmul. Results
// that backward needs in no way, such as the last sum of a residual block, are worth nothing. Which
// results autograd saves is known from a table; an unknown operator counts as saving all.
#ifndef REPRISE_POLICIES_BUDGET_BUDGET_PLAN_H_
#define REPRISE_POLICIES_BUDGET_BUDGET_PLAN_H_

#include <cstdint>
#include <vector>

#include "reprise/policies/budget/run_record.h"
#include "reprise/policies/budget_policy.h"

namespace reprise::policies_internal {

struct BudgetPlan {
  std::vector<bool> saves;        // per call
  std::int64_t result_bytes = 0;  // of all results
  std::int64_t useful_bytes = 0;  // of the results worth saving
  std::int64_t limit_bytes = 0;   // the budget
  std::int64_t saved_bytes = 0;   // of the results that the plan saves
  double seconds = 0;             // of a replay, that saving all of these would spare
  double saved_seconds = 0;       // that the plan spares
};

// Returns for each result the seconds that saving it spares; see Note [Worth].
[[nodiscard]] std::vector<double> worth_of_results(const RunRecord& record);

[[nodiscard]] BudgetPlan plan_run(const RunRecord& record, const BudgetPolicyOptions& options);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_BUDGET_PLAN_H_
