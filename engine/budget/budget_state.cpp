// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_state.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reprise/engine/budget/budget_report.h"

namespace reprise::engine_internal {
namespace {

// Each has the trace of a step, and what the planner has found.
constexpr std::size_t kMostKnownSteps = 16;

constexpr std::size_t kMostKeptSteps = 16;  // see Note [Steps without a tape]

// Of which the second gives the times of a warm step.
constexpr int kRecordings = 2;

}  // namespace

StepPlans BudgetState::plans_for(std::int64_t bytes_before) {
  const MutexLock lock(mutex_);
  StepPlans plans;
  for (const auto& known : known_) {
    if (auto plan = known->plan_for(aim_, bytes_before)) {
      plans.push_back(std::move(plan));
    }
  }
  return plans;
}

bool BudgetState::is_to_record() const {
  const MutexLock lock(mutex_);
  return is_to_record_;
}

StoreRates BudgetState::rates() const {
  const MutexLock lock(mutex_);
  return rates_;
}

void BudgetState::finish(EndedStep step) {
  const MutexLock lock(mutex_);
  last_ = step.measured;
  last_bytes_before_ = step.bytes_before;
  learn(std::move(step));
}

// Steps are destroyed without the lock.
void BudgetState::keep(std::shared_ptr<BudgetStep> step) {
  std::shared_ptr<BudgetStep> oldest;
  const MutexLock lock(mutex_);
  if (kept_.size() == kMostKeptSteps) {
    oldest = std::move(kept_.front());
    kept_.erase(kept_.begin());
  }
  kept_.push_back(std::move(step));
}

void BudgetState::end_keeping() {
  std::vector<std::shared_ptr<BudgetStep>> kept;
  const MutexLock lock(mutex_);
  kept.swap(kept_);
}

void BudgetState::note_failed_forward(const StepPlan& plan) {
  const MutexLock lock(mutex_);
  if (KnownStep* const known = bring_to_front(plan)) {
    known->note_failure(plan);
  }
}

// Returns whether a step with other sizes needs no plan of its own.
bool BudgetState::is_close_enough(const EndedStep& step) const {
  constexpr std::int64_t kPart = 4;  // of the values' bytes
  constexpr std::int64_t kEvictedPart = 16;
  const bool has_room =
      aim_.max_overhead || step.measured.evicted_bytes <= aim_.peak_bytes / kEvictedPart;
  return step.difference <= step.plan->script->bytes() / kPart && has_room && !step.has_failed;
}

void BudgetState::learn(EndedStep step) {
  if (step.rates) {
    rates_ = std::move(*step.rates);
  }
  KnownStep* const known = step.plan == nullptr ? nullptr : bring_to_front(*step.plan);
  if (known == nullptr || step.difference > 0) {
    // Recorded next time, unless the plan of a step with other sizes does.
    is_to_record_ = known == nullptr || !is_close_enough(step);
    if (step.recorded) {
      known_.insert(known_.begin(), std::make_unique<KnownStep>(std::move(*step.recorded), rates_));
      known_.resize(std::min(known_.size(), kMostKnownSteps));
    }
    return;
  }
  if (step.has_failed) {
    known->note_failure(*step.plan);
  } else {
    known->calibrate(*step.plan, {.growth = step.measured.peak_bytes - step.bytes_before,
                                  .shortage_bytes = step.measured.shortage_bytes,
                                  .seconds = step.recorded ? std::nullopt
                                                           : std::optional(step.measured.seconds)});
  }
  if (step.recorded) {
    known->add_recording(std::move(*step.recorded), rates_);
  }
  is_to_record_ = known->recordings() < kRecordings;
}

KnownStep* BudgetState::bring_to_front(const StepPlan& plan) {
  const auto found = std::find_if(known_.begin(), known_.end(),
                                  [&](const auto& known) { return known->is_of(plan); });
  if (found == known_.end()) {
    return nullptr;
  }
  std::rotate(known_.begin(), found, found + 1);
  return known_.front().get();
}

std::optional<BudgetedStep> BudgetState::last_step() const {
  const MutexLock lock(mutex_);
  return last_;
}

KnownStep* BudgetState::latest() {
  if (known_.empty()) {
    return nullptr;
  }
  static_cast<void>(known_.front()->plan_for(aim_, last_bytes_before_));
  return known_.front().get();
}

std::string BudgetState::report() {
  const MutexLock lock(mutex_);
  return describe_budget(aim_, last_ ? &*last_ : nullptr, latest());
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

}  // namespace reprise::engine_internal
