// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/budget_state.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <future>
#include <utility>

#include "reprise/engine/allocation/memory_source.h"
#include "reprise/engine/budget/followed_plan.h"

namespace reprise::engine_internal {
namespace {

// Each has the trace of a step, and what the planner has found.
constexpr std::size_t kMostKnownSteps = 16;

constexpr std::size_t kMostKeptSteps = 16;  // see Note [Steps without a tape]

// Of which the second gives the times of a warm step.
constexpr int kRecordings = 2;

// Steps that are recorded until one comes that is to be: others may come in between.
constexpr int kPatience = 16;

}  // namespace

StepLimit BudgetState::limit_for(std::int64_t bytes_before) const {
  if (share_) {
    return share_of(*share_, memory_source(device_).available(), bytes_before);
  }
  return {.bytes = has_limit() ? aim_.peak_bytes : kNoLimit};
}

BudgetAim BudgetState::aim_within(const StepLimit& limit) const {
  return {
      .peak_bytes = limit.bytes, .max_overhead = aim_.max_overhead, .varies = share_.has_value()};
}

std::vector<PossibleStep> BudgetState::begin_step() {
  const MutexLock lock(mutex_);
  adopt_plans();
  std::vector<PossibleStep> steps;
  for (const auto& known : known_) {
    steps.push_back({known->script(), known->has_stopgap() ? nullptr : known->plan()});
  }
  std::sort(steps.begin(), steps.end(),
            [](const auto& a, const auto& b) { return plan_order(*a.script, *b.script); });
  return steps;
}

std::shared_ptr<const StepPlan> BudgetState::plan_for(const StepScript& script,
                                                      const StepLimit& limit,
                                                      std::int64_t bytes_before,
                                                      bool is_under_way) {
  const MutexLock lock(mutex_);
  const auto found = find(script);
  BackgroundPlanning* const background = plans_in_background_ ? &background_ : nullptr;
  return found == known_.end() ? nullptr
                               : plan_for(**found, limit, bytes_before, is_under_way, background);
}

std::shared_ptr<const StepPlan> BudgetState::plan_for(KnownStep& known, const StepLimit& limit,
                                                      std::int64_t bytes_before, bool is_under_way,
                                                      BackgroundPlanning* background) {
  std::vector<std::shared_ptr<const StepPlan>> plans;
  for (const auto& each : known_) {
    if (each.get() != &known && each->plan() != nullptr && !each->has_stopgap()) {
      plans.push_back(each->plan());
    }
  }
  planning_.note_kinds(known_.size());
  auto plan = known.plan_for(aim_within(limit), bytes_before, kept_values(*known.script(), plans),
                             is_under_way, planning_, background);
  planning_.note_planning(plan == nullptr ? 0 : plan->planning_seconds);
  return plan;
}

void BudgetState::note_planning(double seconds) {
  const MutexLock lock(mutex_);
  planning_.note_planning(seconds);
}

void BudgetState::adopt_plans() {
  const std::optional<BackgroundPlanning::Outcome> outcome = background_.take();
  if (!outcome) {
    return;
  }
  for (const auto& known : known_) {
    if (known->adopt(*outcome)) {
      break;
    }
  }
  if (outcome->error != nullptr) {
    std::rethrow_exception(outcome->error);
  }
}

void BudgetState::settle() {
  adopt_plans();
  while (background_.is_busy()) {
    const std::shared_future<void> pending = background_.pending();
    mutex_.unlock();
    pending.wait();
    mutex_.lock();
    adopt_plans();
  }
}

void BudgetState::finish_planning() const {
  std::shared_future<void> pending;
  {
    const MutexLock lock(mutex_);
    pending = background_.pending();
  }
  if (pending.valid()) {
    pending.wait();
  }
}

bool BudgetState::is_to_record() const {
  const MutexLock lock(mutex_);
  return steps_to_record_ > 0 || std::any_of(known_.begin(), known_.end(), [](const auto& known) {
           return known->has_stopgap();
         });
}

bool BudgetState::has_recorded(const StepScript& script) const {
  const MutexLock lock(mutex_);
  const auto found = find(script);
  return found != known_.end() && (*found)->recordings() >= kRecordings && !(*found)->has_stopgap();
}

StoreRates BudgetState::rates() const {
  const MutexLock lock(mutex_);
  return rates_;
}

void BudgetState::finish(EndedStep step) {
  const MutexLock lock(mutex_);
  last_ = step.measured;
  last_bytes_before_ = step.bytes_before;
  last_limit_ = step.limit;
  planning_.note_step(step.measured.seconds - step.measured.planning_seconds);
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
  if (KnownStep* const known = bring_to_front(*plan.script)) {
    known->note_failure(plan);
  }
}

std::optional<SmallestBudget> BudgetState::smallest_budget(const StepScript& script) {
  std::optional<planner::Trace> trace;
  std::vector<planner::StoreOption> stores;
  bool is_estimate = false;
  {
    const MutexLock lock(mutex_);
    const auto found = find(script);
    if (found == known_.end()) {
      return std::nullopt;
    }
    trace = (*found)->trace();
    stores = (*found)->stores();
    is_estimate = (*found)->is_backward_estimated();
  }
  return find_smallest_budget(*trace, std::move(stores), is_estimate);
}

// Returns whether a step with other sizes needs no plan of its own.
bool BudgetState::is_close_enough(const EndedStep& step) const {
  constexpr std::int64_t kPart = 4;  // of the values' bytes
  constexpr std::int64_t kEvictedPart = 16;
  const bool has_room =
      !has_limit() || step.measured.evicted_bytes <= step.limit.bytes / kEvictedPart;
  return step.difference <= step.plan->script->bytes() / kPart && has_room && !step.has_failed;
}

void BudgetState::learn(EndedStep step) {
  if (step.has_found_rewritten) {  // from now on steps copy more, and can compute less again
    known_.clear();
    steps_to_record_ = kPatience;
    return;
  }
  if (step.rates) {
    rates_ = std::move(*step.rates);
  }
  KnownStep* known = step.plan == nullptr ? nullptr : bring_to_front(*step.plan->script);
  const bool is_new = known == nullptr || step.difference > 0;
  if (!is_new && step.has_failed) {
    known->note_failure(*step.plan);
  } else if (!is_new) {
    calibrate(*known, step);
  }
  if (step.recorded) {
    learn_recording(is_new ? nullptr : known, std::move(*step.recorded), step.in_flight);
  } else if (is_new) {
    steps_to_record_ = kPatience;
  } else if (step.measured.is_recorded) {
    steps_to_record_ = std::max(steps_to_record_ - 1, 0);
  }
  if (is_new && known != nullptr && is_close_enough(step)) {
    steps_to_record_ = 0;  // the plan of a step with other sizes does
  }
}

// The memory and the time of a step that the guard alone has kept within the budget, or that has
// come to its plan late, say nothing of the plan.
void BudgetState::calibrate(KnownStep& known, const EndedStep& step) {
  if (step.plan->is_stopgap || step.plan->is_late) {
    known.note_in_flight(step.in_flight, step.bytes_before);
    return;
  }
  known.calibrate(
      *step.plan,
      {.bytes_before = step.bytes_before,
       .in_flight = step.in_flight,
       .held_bytes = step.held_bytes,
       .rise_bytes = step.rise_bytes,
       .growth = step.measured.peak_bytes - step.bytes_before,
       .is_whole = !step.has_supplied && step.measured.peak_bytes > step.peak_before_plan &&
                   step.plan_shortage_bytes == step.measured.shortage_bytes,
       .shortage_bytes = step.plan_shortage_bytes,
       .limit_growth = step.limit.bytes - step.bytes_before,
       .seconds = step.measured.is_recorded ? std::nullopt : std::optional(step.measured.seconds)});
}

void BudgetState::learn_recording(KnownStep* known, RecordedStep recorded,
                                  const InFlight& in_flight) {
  if (known != nullptr && known->recordings() >= kRecordings) {
    --steps_to_record_;
    return;
  }
  if (known != nullptr) {
    known->add_recording(std::move(recorded), rates_);
  } else {
    recorded.script.number = steps_known_++;
    known_.insert(known_.begin(), std::make_unique<KnownStep>(std::move(recorded), rates_));
    known_.front()->note_in_flight(in_flight, 0);
    known_.resize(std::min(known_.size(), kMostKnownSteps));
  }
  steps_to_record_ = steps_to_await();
}

int BudgetState::steps_to_await() const {
  const bool is_done =
      !known_.empty() && std::all_of(known_.begin(), known_.end(), [](const auto& each) {
        return each->recordings() >= kRecordings;
      });
  return is_done ? 0 : kPatience;
}

BudgetState::KnownSteps::const_iterator BudgetState::find(const StepScript& script) const {
  return std::find_if(known_.begin(), known_.end(),
                      [&](const auto& known) { return known->script().get() == &script; });
}

KnownStep* BudgetState::bring_to_front(const StepScript& script) {
  const auto found = find(script);
  if (found == known_.end()) {
    return nullptr;
  }
  const auto place = known_.begin() + (found - known_.begin());
  std::rotate(known_.begin(), place, place + 1);
  return known_.front().get();
}

}  // namespace reprise::engine_internal
