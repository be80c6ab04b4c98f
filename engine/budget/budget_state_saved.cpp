// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a budget knows, from one process to a later one.
#include <c10/util/StringUtil.h>
#include <torch/version.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/base/version.h"
#include "reprise/engine/budget/budget_state.h"
#include "reprise/engine/budget/saved_script.h"

namespace reprise::engine_internal {

using planner_internal::SavedPlans;
using planner_internal::SavedStep;

namespace {

std::string name_of(c10::Device device) {
  return c10::DeviceTypeName(device.type(), /*lower_case=*/true);
}

// By rank: of those known ever, some may be forgotten.
void renumber(std::vector<SavedStep>& steps) {
  std::vector<std::int32_t> numbers;
  for (const SavedStep& step : steps) {
    numbers.push_back(step.number);
  }
  std::sort(numbers.begin(), numbers.end());
  for (SavedStep& step : steps) {
    const auto rank = std::lower_bound(numbers.begin(), numbers.end(), step.number);
    step.number = static_cast<std::int32_t>(rank - numbers.begin());
  }
}

bool uses_stores(const SavedStep& step) {
  return step.plan &&
         std::any_of(step.plan->choices.choices.begin(), step.plan->choices.choices.end(),
                     [](planner::Choice choice) { return choice.store != planner::kNone; });
}

// Of these stores nothing is known: a step that is recorded once more measures them.
void forget_stores(SavedStep& step, bool has_stores) {
  if (uses_stores(step)) {
    step.plan.reset();
  }
  step.uses_stores = true;
  step.recordings = has_stores ? std::min(step.recordings, 1) : step.recordings;
}

}  // namespace

SavedPlans BudgetState::saved_plans() {
  SavedPlans plans{.device = name_of(device_),
                   .torch = TORCH_VERSION,
                   .reprise = c10::str(REPRISE_VERSION_MAJOR, ".", REPRISE_VERSION_MINOR, ".",
                                       REPRISE_VERSION_PATCH),
                   .peak_bytes = aim_.peak_bytes,
                   .max_overhead = aim_.max_overhead,
                   .stores = static_cast<std::int32_t>(stores_.size())};
  std::vector<std::shared_ptr<const StepScript>> scripts;
  {
    const MutexLock lock(mutex_);
    settle();
    plans.bytes_before_step = last_bytes_before_;
    plans.samples = rates_.saved();
    for (const auto& known : known_) {
      plans.steps.push_back(known->saved());
      scripts.push_back(known->script());
    }
  }
  renumber(plans.steps);
  for (std::size_t i = 0; i < scripts.size(); ++i) {
    save_script(*scripts[i], plans.steps[i]);
  }
  return plans;
}

void BudgetState::load(SavedPlans plans) {
  if (plans.device != name_of(device_)) {
    throw std::invalid_argument(c10::str("[memory_budget] the plans are for the device \"",
                                         plans.device, "\", and the budget for \"",
                                         name_of(device_), "\""));
  }
  const bool has_same_stores = static_cast<std::size_t>(plans.stores) == stores_.size();
  StoreRates rates =
      has_same_stores ? StoreRates(stores_.size(), plans.samples) : StoreRates(stores_.size());
  KnownSteps known;
  for (SavedStep& step : plans.steps) {
    if (std::optional<StepScript> script = load_script(step)) {
      if (plans.max_overhead != aim_.max_overhead) {
        step.plan.reset();
      }
      if (!has_same_stores) {
        forget_stores(step, !stores_.empty());
      }
      known.push_back(std::make_unique<KnownStep>(std::move(step), *std::move(script), rates));
    }
  }
  // What was known is destroyed without the lock.
  const MutexLock lock(mutex_);
  known_.swap(known);
  std::swap(rates_, rates);
  last_bytes_before_ = plans.bytes_before_step;
  steps_known_ = static_cast<int>(plans.steps.size());
  steps_to_record_ = steps_to_await();
}

}  // namespace reprise::engine_internal
