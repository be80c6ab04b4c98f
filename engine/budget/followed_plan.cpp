// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/followed_plan.h"

#include <algorithm>
#include <utility>

namespace reprise::engine_internal {

FollowedPlan::FollowedPlan(std::vector<std::shared_ptr<const StepPlan>> plans) {
  for (auto& plan : plans) {
    candidates_.push_back({std::move(plan)});
  }
  choose();
}

void FollowedPlan::choose() {
  const auto closest = std::min_element(
      candidates_.begin(), candidates_.end(),
      [](const Candidate& a, const Candidate& b) { return a.difference < b.difference; });
  plan_ = closest == candidates_.end() ? nullptr : closest->plan;
  difference_ = plan_ == nullptr ? 0 : closest->difference;
}

const StepScript::Call* FollowedPlan::next_call() const {
  const bool has_next = plan_ != nullptr && calls_ < plan_->script->calls.size();
  return has_next ? &plan_->script->calls[calls_] : nullptr;
}

const StepScript::Call* FollowedPlan::advance(const c10::OperatorHandle& op,
                                              std::span<const TapeRetention::Result> results) {
  std::erase_if(candidates_, [&](Candidate& candidate) {
    const auto difference = candidate.plan->script->difference(calls_, op, results);
    candidate.difference += difference.value_or(0);
    return !difference;
  });
  choose();
  const StepScript::Call* const call = next_call();
  ++calls_;
  return call;
}

void FollowedPlan::end_forward() {
  std::erase_if(candidates_, [this](const Candidate& candidate) {
    return candidate.plan->script->calls.size() != calls_;
  });
  choose();
}

}  // namespace reprise::engine_internal
