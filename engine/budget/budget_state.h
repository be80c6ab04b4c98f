// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a memory budget knows: its aim, the steps that it has seen, and what they needed.
#ifndef REPRISE_ENGINE_BUDGET_BUDGET_STATE_H_
#define REPRISE_ENGINE_BUDGET_BUDGET_STATE_H_

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/budget/background_planning.h"
#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/budget/planning_share.h"
#include "reprise/engine/budget/rewritten_memory.h"
#include "reprise/engine/budget/smallest_budget.h"
#include "reprise/engine/budget/step_limit.h"
#include "reprise/engine/budget/steps_in_flight.h"
#include "reprise/engine/budget/store_probe.h"
#include "reprise/engine/budget/store_rates.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/planner/format/saved_plans.h"

namespace reprise::engine_internal {

// A step that has ended.
struct EndedStep {
  BudgetedStep measured;
  StepLimit limit;
  std::shared_ptr<const StepPlan> plan;    // that it followed to its end; null: none
  std::int64_t peak_before_plan;           // until it followed that; 0: from its beginning
  std::int64_t difference;                 // of its values' bytes from those of the plan
  std::int64_t bytes_before;               // less those that steps in flight held then
  std::optional<std::int64_t> held_bytes;  // see MeasuredStep
  std::optional<std::int64_t> rise_bytes;
  InFlight in_flight;
  std::int64_t plan_shortage_bytes;  // of shortage_bytes, while nothing stayed for other plans
  bool has_failed;                   // it has exceeded the budget
  bool has_supplied = false;         // backwards had left tensors for the next ones meanwhile
  std::optional<RecordedStep> recorded;
  std::optional<StoreRates> rates;   // learnt in it
  bool has_found_rewritten = false;  // see RewrittenMemory
};

class BudgetStep;

// Thread-safe.
class BudgetState {
 public:
  // share: unless the aim has a number. device: whose memory it is; with an index, unless it is the
  // CPU. stores: that plans may use.
  BudgetState(BudgetAim aim, std::optional<DeviceShare> share, c10::Device device, Stores stores,
              bool plans_in_background)
      : aim_(aim),
        share_(share),
        device_(device),
        stores_(std::move(stores)),
        plans_in_background_(plans_in_background),
        rates_(stores_.size()) {}

  bool has_limit() const { return !aim_.max_overhead; }
  // Returns the limit of a step that begins with `bytes_before` in use. May ask LibTorch's
  // allocator, and throws c10::Error if that tells nothing.
  StepLimit limit_for(std::int64_t bytes_before) const;
  c10::Device device() const { return device_; }
  const Stores& stores() const { return stores_; }
  // Returns their rates as measured so far.
  StoreRates rates() const;

  // A step begins, and follows plans made in the background since. Returns the steps that it may
  // be, in the order of plan_order().
  std::vector<PossibleStep> begin_step();
  // Returns the plan for one of them that begins with `bytes_before` in use; null if there is none.
  // Plans if needed, see Note [Plans in the background].
  // is_under_way: the step has begun as another one.
  std::shared_ptr<const StepPlan> plan_for(const StepScript& script, const StepLimit& limit,
                                           std::int64_t bytes_before, bool is_under_way);
  // Returns whether the next step is to be recorded.
  bool is_to_record() const;
  // Returns whether there is nothing to learn from another recording of the step.
  bool has_recorded(const StepScript& script) const;

  void finish(EndedStep step);

  // A step has planned its own backward for so long.
  void note_planning(double seconds);

  // Found by the budget's steps.
  RewrittenMemory& rewritten() { return rewritten_; }
  StepsInFlight& in_flight() { return in_flight_; }

  // A backward leaves a tensor for the next one, see Note [Shared tensors].
  void note_supplied() { ++supplied_; }
  // Returns how many there have ever been.
  std::int64_t supplied() const { return supplied_; }

  // See Note [Steps without a tape].
  void keep(std::shared_ptr<BudgetStep> step);
  void end_keeping();

  // Forward of a step that follows this plan has exceeded the budget.
  void note_failed_forward(const StepPlan& plan);

  // Returns the smallest budget for a step that is known. Plans.
  std::optional<SmallestBudget> smallest_budget(const StepScript& script);

  // Returns what a later process needs.
  planner_internal::SavedPlans saved_plans();
  // Replaces what is known. Throws std::invalid_argument if it is of another device, and then
  // leaves it.
  void load(planner_internal::SavedPlans plans);

  // Waits for a plan that is made in the background, and leaves it there.
  void finish_planning() const;

  // A step has exceeded the budget.
  void note_failure() { has_failed_ = true; }
  // Returns whether one has since the last call.
  bool take_failure() { return has_failed_.exchange(false); }

  std::optional<BudgetedStep> last_step() const;
  std::string report();
  std::string explain(const std::string& op);
  std::optional<planner::Trace> trace() const;
  std::optional<planner::StepReport> step_report();

 private:
  using KnownSteps = std::vector<std::unique_ptr<KnownStep>>;

  // Returns the step that was known last, with a plan for its next run; null if none is.
  KnownStep* latest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the step, which is the latest now; null if it is no longer known.
  KnownStep* bring_to_front(const StepScript& script) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  KnownSteps::const_iterator find(const StepScript& script) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<const StepPlan> plan_for(KnownStep& known, const StepLimit& limit,
                                           std::int64_t bytes_before, bool is_under_way,
                                           BackgroundPlanning* background)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has steps follow what has been planned in the background.
  void adopt_plans() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits, without the lock, until nothing is planned in the background.
  void settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void calibrate(KnownStep& known, const EndedStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void learn(EndedStep step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void learn_recording(KnownStep* known, RecordedStep recorded, const InFlight& in_flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_close_enough(const EndedStep& step) const;
  BudgetAim aim_within(const StepLimit& limit) const;
  // Returns how many steps are to be recorded, at most, for what is still to be learnt.
  int steps_to_await() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BudgetAim aim_;
  const std::optional<DeviceShare> share_;
  const c10::Device device_;
  const Stores stores_;
  const bool plans_in_background_;
  std::atomic<bool> has_failed_ = false;
  std::atomic<std::int64_t> supplied_ = 0;
  RewrittenMemory rewritten_;
  StepsInFlight in_flight_;
  mutable Mutex mutex_;
  KnownSteps known_ ABSL_GUARDED_BY(mutex_);  // the latest first
  BackgroundPlanning background_ ABSL_GUARDED_BY(mutex_);
  PlanningShare planning_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<BudgetStep>> kept_ ABSL_GUARDED_BY(mutex_);  // the latest last
  StoreRates rates_ ABSL_GUARDED_BY(mutex_);
  std::optional<BudgetedStep> last_ ABSL_GUARDED_BY(mutex_);
  std::int64_t last_bytes_before_ ABSL_GUARDED_BY(mutex_) = 0;  // of that step
  StepLimit last_limit_ ABSL_GUARDED_BY(mutex_);
  int steps_to_record_ ABSL_GUARDED_BY(mutex_) = 1;  // at most, until there is nothing to learn
  int steps_known_ ABSL_GUARDED_BY(mutex_) = 0;      // ever
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BUDGET_STATE_H_
