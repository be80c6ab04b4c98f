// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plan that a step follows: of the known ones that have all of its operators so far, the one
// whose values are closest in size.
//
// Note [Shared beginnings]: steps over sequences of several lengths begin alike. The length of a
// step shows where a shorter step would have ended. Until then the step follows the plan of the
// shortest candidate, whose plan retains the most, and beside that retains what the plans of longer
// candidates do. When the shorter step is ruled out, values that no candidate's plan retains are
// freed, at no cost; when backward begins, all that the step's own plan does not. So that both fit,
// the plan of the shorter step is made to retain what those of longer ones do (kept_values()): the
// longest step has the least room for a choice.
#ifndef REPRISE_ENGINE_BUDGET_FOLLOWED_PLAN_H_
#define REPRISE_ENGINE_BUDGET_FOLLOWED_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "reprise/engine/budget/step_plan.h"
#include "reprise/engine/budget/step_script.h"
#include "reprise/engine/tape/tape_retention.h"

namespace reprise::engine_internal {

class FollowedPlan {
 public:
  // Returns the plan for a step; null if there is none. May plan.
  using PlanOf = std::function<std::shared_ptr<const StepPlan>(const StepScript&)>;

  // steps: those that are known, in the order of plan_order(). Of those equally close, the first
  // one is followed.
  FollowedPlan(std::vector<PossibleStep> steps, PlanOf plan_of);

  // Returns null if there is none.
  const std::shared_ptr<const StepPlan>& plan() const { return plan_; }
  // Returns whether none keeps the step within its limit, but the guard.
  bool guards_alone() const { return plan_ == nullptr || plan_->is_stopgap; }
  // Returns the difference of its values' sizes from the step's so far, in bytes.
  std::int64_t difference() const { return difference_; }

  // Returns the call of the plan's step that is next; null if there is none.
  const StepScript::Call* next_call() const;

  // The next operator has run. Returns it as a call of the plan's step; null without a plan.
  const StepScript::Call* advance(const c10::OperatorHandle& op,
                                  std::span<const TapeRetention::Result> results);
  // There is no further operator.
  void end_forward();

  // Returns whether another plan was followed at first.
  bool has_changed() const { return has_changed_; }
  // Returns whether another plan was followed until the last call.
  bool take_change() { return std::exchange(is_to_take_, false); }
  // Returns the number of operators so far, while there is a plan.
  std::size_t calls() const { return calls_; }
  // Returns whether the plan of another step that this one may be retains value number `number`.
  bool is_kept_by_others(std::uint32_t number) const;
  // Returns the values of the step so far, by number.
  std::span<const TapeValueId> values() const { return values_; }

 private:
  struct Candidate {
    PossibleStep step;
    std::int64_t difference = 0;
  };
  void choose();

  PlanOf plan_of_;
  std::vector<Candidate> candidates_;
  std::shared_ptr<const StepPlan> plan_;
  std::int64_t difference_ = 0;
  std::vector<TapeValueId> values_;
  std::size_t calls_ = 0;
  bool has_changed_ = false;
  bool is_to_take_ = false;
};

// Returns whether a step's plan is to be followed before another one's that is as close.
bool plan_order(const StepScript& one, const StepScript& other);

// Returns, by number, the values of `script` that plans of steps after it in that order, which are
// among those in `plans`, retain while the steps may still turn out to be either.
std::vector<bool> kept_values(const StepScript& script,
                              std::span<const std::shared_ptr<const StepPlan>> plans);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_FOLLOWED_PLAN_H_
