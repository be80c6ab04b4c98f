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
    : uses_stores_(saved.uses_stores),
      recordings_(saved.recordings),
      backward_(static_cast<RecordedBackward>(saved.backward)) {
  replace({std::move(script), std::move(saved.trace), backward_}, rates);
  excess_bytes_ = saved.excess_bytes;
  least_excess_bytes_ = saved.least_excess_bytes.value_or(least_excess_bytes_);
  excess_seconds_ = saved.excess_seconds;
  timed_steps_ = saved.timed_steps;
  if (saved.plan) {
    adopt(*saved.plan);
  }
}

// A plan that is not valid for the stores as they are known now is left out: another one is made.
void KnownStep::adopt(const SavedPlan& saved) {
  const auto stores = static_cast<std::ptrdiff_t>(this->stores().size());
  const bool has_stores =
      std::all_of(saved.choices.choices.begin(), saved.choices.choices.end(),
                  [&](const planner::Choice& choice) { return choice.store < stores; });
  if (!has_stores) {
    return;
  }
  const planner::Simulation simulation = planner_->simulator().run(saved.choices);
  if (!simulation.is_valid) {
    return;
  }
  room_ = saved.room_bytes;
  is_smallest_ = saved.is_smallest;
  set_plan(saved.choices, simulation, saved.bound_seconds);
  plan_->peak_error = saved.peak_error_bytes;
}

SavedStep KnownStep::saved() const {
  SavedStep saved{.trace = *trace_,
                  .number = script_->number,
                  .recordings = recordings_,
                  .backward = static_cast<SavedBackward>(backward_),
                  .uses_stores = uses_stores_,
                  .excess_bytes = excess_bytes_,
                  .excess_seconds = excess_seconds_,
                  .timed_steps = timed_steps_};
  if (least_excess_bytes_ > kNoShortage) {
    saved.least_excess_bytes = least_excess_bytes_;
  }
  if (plan_ != nullptr) {
    saved.plan = {.choices = reduced_,
                  .room_bytes = std::min(room_, planner_internal::kMostRoomBytes),
                  .peak_error_bytes = plan_->peak_error,
                  .bound_seconds = plan_->bound_seconds,
                  .is_smallest = is_smallest_};
  }
  return saved;
}

}  // namespace reprise::engine_internal
