// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The time that the steps of a budget spend on plans.
//
// Note [The share of planning]: for one or two kinds of steps, KnownStep bounds the number of
// plans. With more kinds, planning takes at most a fifth of the time of the budget's steps, the
// time of four steps, and a quarter of a second. A plan that would replace another one waits until
// there is time for it. A step that has no plan, or whose plan does not fit, alone or with what
// stays for others, gets one in any case: by a shorter search if little time is left, which a
// longer one follows when there is time again.
// Not counted are searches in the background, which no step waits for. Beyond the share goes the
// thorough search for a step of which no plan is found within the budget: evictions would take
// longer, step after step.
#ifndef REPRISE_ENGINE_BUDGET_PLANNING_SHARE_H_
#define REPRISE_ENGINE_BUDGET_PLANNING_SHARE_H_

#include <cstddef>
#include <limits>

namespace reprise::engine_internal {

// Not thread-safe.
class PlanningShare {
 public:
  // seconds: of a step that has ended, without those of planning.
  void note_step(double seconds) { steps_seconds_ += seconds; }
  void note_planning(double seconds) { planning_seconds_ += seconds; }

  // kinds: of steps that are known.
  void note_kinds(std::size_t kinds) { kinds_ = kinds; }

  // Returns the seconds that are left for a plan of a step that takes `step_seconds`; negative if
  // the share is used up, infinite for few kinds of steps.
  double left_for(double step_seconds) const {
    constexpr std::size_t kFewKinds = 2;
    if (kinds_ <= kFewKinds) {
      return std::numeric_limits<double>::infinity();
    }
    constexpr double kPart = 0.2;
    constexpr double kSteps = 4;
    constexpr double kSeconds = 0.25;
    return kPart * steps_seconds_ + kSteps * step_seconds + kSeconds - planning_seconds_;
  }

 private:
  double steps_seconds_ = 0;
  double planning_seconds_ = 0;
  std::size_t kinds_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_PLANNING_SHARE_H_
