// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a budget tells of its steps.
#include <memory>
#include <optional>
#include <string>

#include "reprise/engine/budget/budget_report.h"
#include "reprise/engine/budget/budget_state.h"

namespace reprise::engine_internal {

std::optional<BudgetedStep> BudgetState::last_step() const {
  const MutexLock lock(mutex_);
  return last_;
}

KnownStep* BudgetState::latest() {
  settle();
  if (known_.empty()) {
    return nullptr;
  }
  if (last_) {
    static_cast<void>(plan_for(*known_.front(), last_limit_, last_bytes_before_,
                               /*is_under_way=*/false, nullptr));
  }
  return known_.front().get();
}

std::string BudgetState::report() {
  const MutexLock lock(mutex_);
  const StepLimit limit = last_ ? last_limit_ : StepLimit{.bytes = aim_.peak_bytes};
  return describe_budget(aim_within(limit), limit, last_ ? &*last_ : nullptr, latest());
}

std::string BudgetState::explain(const std::string& op) {
  const MutexLock lock(mutex_);
  KnownStep* const known = latest();
  return known == nullptr ? "" : known->explain(op);
}

std::optional<planner::Trace> BudgetState::trace() const {
  const MutexLock lock(mutex_);
  return known_.empty() ? std::nullopt : std::optional(known_.front()->trace());
}

std::optional<planner::StepReport> BudgetState::step_report() {
  const MutexLock lock(mutex_);
  KnownStep* const known = latest();
  return known == nullptr ? std::nullopt
                          : report_of(aim_, last_ ? &*last_ : nullptr, last_bytes_before_, *known);
}

}  // namespace reprise::engine_internal
