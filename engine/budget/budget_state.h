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
#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/budget/store_probe.h"
#include "reprise/engine/budget/store_rates.h"
#include "reprise/engine/memory_budget.h"

namespace reprise::engine_internal {

using StepPlans = std::vector<std::shared_ptr<const StepPlan>>;

// A step that has ended.
struct EndedStep {
  BudgetedStep measured;
  std::shared_ptr<const StepPlan> plan;  // that it followed to its end; null: none
  std::int64_t difference;               // of its values' bytes from those of the plan
  std::int64_t bytes_before;
  bool has_failed;  // it has exceeded the budget
  std::optional<RecordedStep> recorded;
  std::optional<StoreRates> rates;  // learnt in it
};

class BudgetStep;

// Thread-safe.
class BudgetState {
 public:
  // device: whose memory it is; with an index, unless it is the CPU. stores: that plans may use.
  BudgetState(BudgetAim aim, c10::Device device, Stores stores)
      : aim_(aim), device_(device), stores_(std::move(stores)), rates_(stores_.size()) {}

  const BudgetAim& aim() const { return aim_; }
  c10::Device device() const { return device_; }
  const Stores& stores() const { return stores_; }
  // Returns their rates as measured so far.
  StoreRates rates() const;

  // Returns a plan for each step that the next one may be, the latest first. Plans as needed.
  StepPlans plans_for(std::int64_t bytes_before);
  // Returns whether the next step is to be recorded.
  bool is_to_record() const;

  void finish(EndedStep step);

  // See Note [Steps without a tape].
  void keep(std::shared_ptr<BudgetStep> step);
  void end_keeping();

  // Forward of a step that follows this plan has exceeded the budget.
  void note_failed_forward(const StepPlan& plan);

  // A step has exceeded the budget.
  void note_failure() { has_failed_ = true; }
  // Returns whether one has since the last call.
  bool take_failure() { return has_failed_.exchange(false); }

  std::optional<BudgetedStep> last_step() const;
  std::string report();
  std::string explain(const std::string& op);
  std::optional<planner::Trace> trace() const;

 private:
  // Returns the step that was known last, with a plan for its next run; null if none is.
  KnownStep* latest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the step of the plan, which is the latest now; null if it is no longer known.
  KnownStep* bring_to_front(const StepPlan& plan) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void learn(EndedStep step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_close_enough(const EndedStep& step) const;

  const BudgetAim aim_;
  const c10::Device device_;
  const Stores stores_;
  std::atomic<bool> has_failed_ = false;
  mutable Mutex mutex_;
  std::vector<std::unique_ptr<KnownStep>> known_ ABSL_GUARDED_BY(mutex_);  // the latest first
  std::vector<std::shared_ptr<BudgetStep>> kept_ ABSL_GUARDED_BY(mutex_);  // the latest last
  StoreRates rates_ ABSL_GUARDED_BY(mutex_);
  std::optional<BudgetedStep> last_ ABSL_GUARDED_BY(mutex_);
  std::int64_t last_bytes_before_ ABSL_GUARDED_BY(mutex_) = 0;  // of that step
  bool is_to_record_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BUDGET_STATE_H_
