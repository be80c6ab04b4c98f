// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The policy of one run of a region: observes its operators, and follows the plan of a known run as
// long as they agree.
#ifndef REPRISE_POLICIES_BUDGET_REGION_RUN_H_
#define REPRISE_POLICIES_BUDGET_REGION_RUN_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "reprise/policies/budget/known_runs.h"
#include "reprise/policies/budget/run_record.h"
#include "reprise/policies/budget/saved_ledger.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::policies_internal {

class RegionRun final : public Policy {
 public:
  explicit RegionRun(std::shared_ptr<KnownRuns> known);
  // The region has ended: the run becomes a known one, unless an exception ended it.
  ~RegionRun() override;

  PolicyAnswer decide(const PolicyContext& context) override;

 private:
  using Clock = std::chrono::steady_clock;

  void begin(const PolicyContext& context);
  void follow();
  [[nodiscard]] bool follows_settled() const {
    return !followed_.empty() && followed_.front()->is_settled();
  }

  const std::shared_ptr<KnownRuns> known_;
  const std::shared_ptr<SavedLedger> ledger_ = SavedLedger::open();
  const int exceptions_at_start_;
  std::string region_;
  RunRecorder recorder_;
  KnownRunList followed_;  // those that agree with all calls so far; the first one's plan applies
  Clock::time_point resumed_;
};

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_REGION_RUN_H_
