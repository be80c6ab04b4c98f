// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: budget_policy.h
//
// A policy that saves results within a budget of bytes per run of a region: those that take the
// most time to compute again. It measures the times of operators in two runs.
//
// Not for a budget of a whole step (use MemoryBudget, in memory_budget.h), nor for results that
// have to be saved or recomputed: mark them by must_save() or must_recompute(), or combine
// policies.
//
// Example:
//
//   namespace rp = reprise;
//   const auto policy = std::make_shared<rp::BudgetPolicy>(
//       rp::BudgetPolicyOptions{.saved_fraction = 0.3});  // lives as long as training
//   for (Block& block : blocks) {
//     x = rp::checkpoint({.name = block.name, .policy = policy}, block, x);
//   }
//   std::cout << policy->explain();
//
// A region's first run is observed, and saves nothing. The second follows a plan, and is observed
// once more; from the third on the plan, made of the shorter times of both, is final. A run that
// departs from each known one, with other shapes or by another branch, recomputes what follows, and
// is known the next time. Up to 16 runs of a region are known, and 256 of a policy; regions without
// a name count as one. In an observed run the policy waits for the device after each operator.
//
// Plans depend on measured times: a program that has to retain the same bytes each time, or on each
// rank, needs another policy. Gradients do not depend on them. Results of collectives are not
// saved, so that all ranks repeat the same ones.
//
// Thread-safety: thread-safe. Runs of a region on several threads share its plans.
#ifndef REPRISE_POLICIES_BUDGET_POLICY_H_
#define REPRISE_POLICIES_BUDGET_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise {

namespace policies_internal {
class KnownRuns;
}  // namespace policies_internal

// Exactly one of them.
struct BudgetPolicyOptions {
  // For each run of a region.
  std::optional<std::int64_t> saved_bytes = std::nullopt;
  // Of the bytes of all results of the region that are worth saving, from 0, which saves none, to
  // 1, which saves all.
  std::optional<double> saved_fraction = std::nullopt;
};

// The runs of a region with the same operators and bytes, and the plan for the next one. Bytes are
// those of results, each storage once.
struct BudgetedRun {
  std::string region = {};        // empty: regions without a name
  std::int64_t runs = 0;          // so far
  std::int64_t operators = 0;     // that the policy was asked for
  std::int64_t result_bytes = 0;  // of all results
  std::int64_t useful_bytes = 0;  // of those worth saving: backward, or a replay, needs them
  std::int64_t limit_bytes = 0;   // the budget
  std::int64_t saved_bytes = 0;   // of those that the next run saves
  double seconds = 0;             // of recomputation that saving all useful results spares
  double saved_seconds = 0;       // of recomputation that the next run spares
};

class REPRISE_API BudgetPolicy final : public Policy {
 public:
  // Throws: std::invalid_argument unless exactly one option is set, saved_bytes is not negative,
  //   and saved_fraction is from 0 to 1.
  explicit BudgetPolicy(const BudgetPolicyOptions& options);
  ~BudgetPolicy() override;

  // Returns the policy of one run. It answers PREFER_SAVE, for no more bytes than the budget of the
  // run, or PREFER_RECOMPUTE, always so to `checkpoint_name()`. In nested regions under budget
  // policies the answers of the inner region apply, within the budgets of both.
  std::shared_ptr<Policy> begin_region() override;

  // Throws: std::logic_error. A policy of your own that asks this one has to ask the one that
  //   begin_region() returns.
  PolicyAnswer decide(const PolicyContext& context) override;

  // Returns the known runs, in the order of their first observation.
  [[nodiscard]] std::vector<BudgetedRun> known_runs() const;
  // Returns the same as human-readable text, a line for each.
  [[nodiscard]] std::string explain() const;

 private:
  const std::shared_ptr<policies_internal::KnownRuns> known_;
};

}  // namespace reprise

#endif  // REPRISE_POLICIES_BUDGET_POLICY_H_
