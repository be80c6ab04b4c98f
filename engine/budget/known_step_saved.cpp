// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A step that is known from an earlier process.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "reprise/engine/budget/known_step.h"

namespace reprise::engine_internal {

using planner_internal::SavedBackward;
using planner_internal::SavedPlan;
using planner_internal::SavedStep;

namespace {

// Far more than a budget has.
constexpr std::int64_t kNoShortage = std::numeric_limits<std::int64_t>::min() / 4;

static_assert(static_cast<int>(SavedBackward::kWhole) ==
                  static_cast<int>(RecordedBackward::kWhole) &&
              static_cast<int>(SavedBackward::kUnfinished) ==
                  static_cast<int>(RecordedBackward::kUnfinished) &&
              static_cast<int>(SavedBackward::kUnobserved) ==
                  static_cast<int>(RecordedBackward::kUnobserved));

}  // namespace

KnownStep::KnownStep(SavedStep saved, StepScript script, const StoreRates& rates)
    : backward_(static_cast<RecordedBackward>(saved.backward)),
      recordings_(saved.recordings),
      uses_stores_(saved.uses_stores) {
  replace({std::move(script), without_evictions(std::move(saved.trace)), backward_}, rates);
  corrections_.excess_bytes = saved.excess_bytes;
  corrections_.planned_for_bytes = saved.excess_bytes;
  corrections_.least_excess_bytes =
      saved.least_excess_bytes.value_or(corrections_.least_excess_bytes);
  corrections_.excess_seconds = saved.excess_seconds;
  corrections_.timed_steps = saved.timed_steps;
  if (saved.plan) {
    adopt(*saved.plan);
  }
}

// A plan that is not valid for the stores as they are known now is left out: another one is made.
void KnownStep::adopt(const SavedPlan& saved) {
  std::optional<FoundPlan> found = planner_->simulate(saved.choices, saved.bound_seconds);
  if (!found) {
    return;
  }
  room_ = saved.room_bytes;
  for (const planner::Choice& choice : saved.choices.choices) {
    kept_.push_back(choice.is_retained());
  }
  found->is_smallest = saved.is_smallest;
  set_plan(std::move(found));
  plan_->peak_error = saved.peak_error_bytes;
}

SavedStep KnownStep::saved() const {
  SavedStep saved{.trace = *trace_,
                  .number = script_->number,
                  .recordings = recordings_,
                  .backward = static_cast<SavedBackward>(backward_),
                  .uses_stores = uses_stores_,
                  .excess_bytes = corrections_.excess_bytes,
                  .excess_seconds = corrections_.excess_seconds,
                  .timed_steps = corrections_.timed_steps};
  if (corrections_.least_excess_bytes > kNoShortage) {
    saved.least_excess_bytes = corrections_.least_excess_bytes;
  }
  if (plan_ != nullptr && room_ >= 0) {
    planner::Plan choices = found_.plan;
    for (std::size_t value = 0; value < found_.kept.size(); ++value) {
      if (found_.kept[value]) {
        choices.choices[value] = planner::Choice::retain();
      }
    }
    saved.plan = {.choices = std::move(choices),
                  .room_bytes = std::min(room_, planner_internal::kMostRoomBytes),
                  .peak_error_bytes = plan_->peak_error,
                  .bound_seconds = plan_->bound_seconds,
                  .is_smallest = found_.is_smallest};
  }
  return saved;
}

}  // namespace reprise::engine_internal
