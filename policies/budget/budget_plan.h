// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The results that a region saves within its budget: see Note [Retained within bytes].
#ifndef REPRISE_POLICIES_BUDGET_BUDGET_PLAN_H_
#define REPRISE_POLICIES_BUDGET_BUDGET_PLAN_H_

#include <cstdint>
#include <vector>

#include "reprise/policies/budget_policy.h"
#include "reprise/policies/region_trace.h"

namespace reprise::policies_internal {

// One question of the engine's, for an operator.
struct RecordedCall {
  const void* op = nullptr;
  std::int64_t ordinal = 0;
  std::int64_t bytes = 0;  // of its results
  double seconds = 0;

  [[nodiscard]] bool is_same_operator(const RecordedCall& other) const noexcept {
    return op == other.op && ordinal == other.ordinal && bytes == other.bytes;
  }
};

struct BudgetPlan {
  std::vector<bool> saves;  // per call
  BudgetedRun figures;      // except the region and its runs
};

// calls: with ascending ordinals. region: the trace of the same run.
[[nodiscard]] BudgetPlan plan_run(const std::vector<RecordedCall>& calls, RegionTrace region,
                                  const BudgetPolicyOptions& options);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_BUDGET_PLAN_H_
