// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plan that a step follows: of the known ones that have all of its operators so far, the one
// whose values are closest in size.
#ifndef REPRISE_ENGINE_BUDGET_FOLLOWED_PLAN_H_
#define REPRISE_ENGINE_BUDGET_FOLLOWED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/tape/tape_retention.h"

namespace reprise::engine_internal {

class FollowedPlan {
 public:
  // Of plans that are equally close, the first one is followed.
  explicit FollowedPlan(std::vector<std::shared_ptr<const StepPlan>> plans);

  // Returns null if there is none.
  const std::shared_ptr<const StepPlan>& plan() const { return plan_; }
  // Returns the difference of its values' sizes from the step's so far, in bytes.
  std::int64_t difference() const { return difference_; }

  // Returns the call of the plan's step that is next; null if there is none.
  const StepScript::Call* next_call() const;

  // The next operator has run. Returns it as a call of the plan's step; null without a plan.
  const StepScript::Call* advance(const c10::OperatorHandle& op,
                                  std::span<const TapeRetention::Result> results);
  // There is no further operator.
  void end_forward();

 private:
  struct Candidate {
    std::shared_ptr<const StepPlan> plan;
    std::int64_t difference = 0;
  };
  void choose();

  std::vector<Candidate> candidates_;
  std::shared_ptr<const StepPlan> plan_;
  std::int64_t difference_ = 0;
  std::size_t calls_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_FOLLOWED_PLAN_H_
