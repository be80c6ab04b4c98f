// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/followed_plan.h"

#include <algorithm>
#include <utility>

namespace reprise::engine_internal {

FollowedPlan::FollowedPlan(std::vector<PossibleStep> steps, PlanOf plan_of)
    : plan_of_(std::move(plan_of)) {
  for (PossibleStep& step : steps) {
    candidates_.push_back({std::move(step)});
  }
  choose();
}

bool FollowedPlan::is_kept_by_others(std::uint32_t number) const {
  return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& candidate) {
    const StepPlan* const plan = candidate.step.plan.get();
    return plan != nullptr && candidate.difference == difference_ &&
           candidate.step.script != plan_->script && plan->choices[number].is_retained();
  });
}

// A step of which no plan is valid is no candidate.
void FollowedPlan::choose() {
  while (!candidates_.empty()) {
    const auto closest = std::min_element(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.difference < b.difference; });
    difference_ = closest->difference;
    if (plan_ != nullptr && plan_->script == closest->step.script) {
      return;
    }
    if (auto plan = plan_of_(*closest->step.script)) {
      if (calls_ > 0) {
        has_changed_ = true;
        is_to_take_ = true;
      }
      plan_ = std::move(plan);
      return;
    }
    candidates_.erase(closest);
  }
  plan_ = nullptr;
  difference_ = 0;
}

const StepScript::Call* FollowedPlan::next_call() const {
  const bool has_next = plan_ != nullptr && calls_ < plan_->script->calls.size();
  return has_next ? &plan_->script->calls[calls_] : nullptr;
}

const StepScript::Call* FollowedPlan::advance(const c10::OperatorHandle& op,
                                              std::span<const TapeRetention::Result> results) {
  if (plan_ == nullptr) {
    return nullptr;
  }
  for (const TapeRetention::Result& result : results) {
    values_.push_back(result.value);
  }
  std::erase_if(candidates_, [&](Candidate& candidate) {
    const auto difference = candidate.step.script->difference(calls_, op, results);
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
    return candidate.step.script->calls.size() != calls_;
  });
  choose();
}

bool plan_order(const StepScript& one, const StepScript& other) {
  return std::pair(one.calls.size(), one.number) < std::pair(other.calls.size(), other.number);
}

std::vector<bool> kept_values(const StepScript& script,
                              std::span<const std::shared_ptr<const StepPlan>> plans) {
  std::vector<bool> kept(script.values.size());
  for (const auto& plan : plans) {
    if (plan_order(script, *plan->script)) {
      const std::size_t calls = script.calls_shared_with(*plan->script);
      const std::uint32_t end = calls == 0 ? 0 : script.calls[calls - 1].end_value;
      for (std::uint32_t number = 0; number < end; ++number) {
        kept[number] = kept[number] || plan->choices[number].is_retained();
      }
    }
  }
  return kept;
}

}  // namespace reprise::engine_internal
