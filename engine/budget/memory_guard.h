// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Enforces the budgets of the steps in progress on one device: has them make room when memory would
// exceed one. On the CPU that is before each allocation; elsewhere, between operators.
//
// Note [A limit belongs to its step]: the limit of a step is in force while its thread is in
// forward or waits for backward, and in each backward through the step, whichever thread runs it.
// It refuses what that thread and those backwards allocate. Other threads are never refused: what
// they hold counts, as what was there before the step does. It ends with the first backward after
// forward, with an error that leaves the step, and with its MemoryBudget; later backwards through
// the step are then held to it by themselves. Room is made by the steps of a budget that would be
// exceeded, never by those of another one.
#ifndef REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_
#define REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/allocation/memory_source.h"

namespace reprise::engine_internal {

class BudgetState;
class BudgetStep;

// One per device. Thread-safe.
class MemoryGuard {
 public:
  static MemoryGuard& of(c10::Device device);
  // Returns those that keep limits between operators and have steps in progress.
  static std::vector<MemoryGuard*> between_operators();
  // Returns the steps on all devices that are known.
  static std::vector<std::shared_ptr<BudgetStep>> all_steps();

  MemorySource& source() { return source_; }

  // The step is known until it is forgotten: what it retains may be evicted.
  void add(const std::shared_ptr<BudgetStep>& step, const BudgetState* budget);
  void forget(BudgetStep& step);
  // Its limit is in force in between. Calls nest.
  void hold(BudgetStep& step);
  void release(BudgetStep& step);
  // Raises the peaks of the steps whose limits are in force to the source's until now.
  void assign_peak();
  // Returns the steps whose limits are in force, or all that are known.
  std::vector<std::shared_ptr<BudgetStep>> steps(bool only_held = true) const;

  // Returns the bytes that backwards through the budget's steps have left for the next ones. They
  // are free when needed.
  std::int64_t supplied_bytes(const BudgetState& budget) const;

  // Frees about `bytes`, as there would be `bytes_after` in use; kNoLimit: whatever the budgets.
  // Returns whether any memory has been freed.
  bool make_room(std::int64_t bytes, std::int64_t bytes_after);
  // Frees what `bytes` more need to be within the limit, if the source itself does not keep it.
  // Returns the bytes that are still missing.
  std::int64_t make_room_for(std::int64_t bytes);

 private:
  struct Entry {
    const BudgetStep* key;
    std::weak_ptr<BudgetStep> step;
    const BudgetState* budget;  // to compare
    std::int64_t limit_bytes;
    int holds = 0;
  };

  explicit MemoryGuard(MemorySource& source) : source_(source) {}
  Entry* find(const BudgetStep& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void update() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the steps that make room for an allocation.
  std::vector<std::shared_ptr<BudgetStep>> steps_to_evict(std::int64_t bytes_after) const;

  MemorySource& source_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_
