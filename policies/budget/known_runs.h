// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The runs of regions that a budget policy has observed, with a plan for each.
#ifndef REPRISE_POLICIES_BUDGET_KNOWN_RUNS_H_
#define REPRISE_POLICIES_BUDGET_KNOWN_RUNS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/policies/budget/budget_plan.h"
#include "reprise/policies/budget_policy.h"
#include "reprise/policies/region_trace.h"

namespace reprise::policies_internal {

struct KnownRun {
  std::vector<RecordedCall> calls;  // with the least time of each operator so far
  int observations = 0;
  BudgetPlan plan;

  // Times are final, and so is the plan.
  [[nodiscard]] bool is_settled() const noexcept { return observations >= 2; }
};

using KnownRunList = std::vector<std::shared_ptr<const KnownRun>>;

// Thread-safe. Plans without holding its lock.
class KnownRuns {
 public:
  explicit KnownRuns(const BudgetPolicyOptions& options) : options_(options) {}

  // Returns the runs of the region, the last used first.
  [[nodiscard]] KnownRunList runs_of(std::string_view region) const;
  // A run has ended. A new one takes the place of the one that was not used for the longest time,
  // of the same region or of all, if there are many.
  void learn(std::string_view region, std::vector<RecordedCall> calls,
             const std::function<RegionTrace()>& trace);

  [[nodiscard]] const BudgetPolicyOptions& options() const noexcept { return options_; }
  // Returns the known runs in the order of their first observation.
  [[nodiscard]] std::vector<BudgetedRun> report() const;

 private:
  struct Entry {
    std::string region;
    std::shared_ptr<const KnownRun> run;
    std::int64_t number;  // of runs before the first one like it
    std::int64_t runs;
  };

  // Both with the lock held. Returns the entry, which counts as used; null if the run is unknown.
  Entry* find(std::string_view region, const std::vector<RecordedCall>& calls);
  void add(std::string_view region, std::shared_ptr<const KnownRun> run);

  const BudgetPolicyOptions options_;
  mutable std::mutex mutex_;
  std::vector<Entry> entries_;  // the last used first
  std::int64_t added_ = 0;
};

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_KNOWN_RUNS_H_
