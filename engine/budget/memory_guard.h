// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Enforces the budgets of the steps in progress on one device: has them make room when memory would
// exceed one. On the CPU that is before each allocation; elsewhere, between operators.
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

class BudgetStep;

// One per device. Thread-safe.
class MemoryGuard {
 public:
  static MemoryGuard& of(c10::Device device);
  // Returns those that keep limits between operators and have steps in progress.
  static std::vector<MemoryGuard*> between_operators();

  MemorySource& source() { return source_; }

  // The step's limit holds until it is removed. Adding it twice has no effect.
  void add(const std::shared_ptr<BudgetStep>& step);
  void remove(BudgetStep& step);
  std::vector<std::shared_ptr<BudgetStep>> steps() const;

  // Frees about `bytes`. Returns whether any memory has been freed.
  bool make_room(std::int64_t bytes);
  // Frees what `bytes` more need to be within the limit, if the source itself does not keep it.
  // Returns the bytes that are still missing.
  std::int64_t make_room_for(std::int64_t bytes);

 private:
  struct Entry {
    const BudgetStep* key;
    std::weak_ptr<BudgetStep> step;
    std::int64_t limit_bytes;
  };

  explicit MemoryGuard(MemorySource& source) : source_(source) {}
  void update() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MemorySource& source_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_
