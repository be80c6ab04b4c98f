// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Enforces the budgets of the steps in progress: has them make room when an allocation would exceed
// one.
#ifndef REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_
#define REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/allocation/cpu_allocations.h"

namespace reprise::engine_internal {

class BudgetStep;

// One per process. Thread-safe.
class MemoryGuard final : public CpuAllocationObserver {
 public:
  static MemoryGuard& instance();

  // The step's limit holds until it is removed. Adding it twice has no effect.
  void add(const std::shared_ptr<BudgetStep>& step);
  void remove(BudgetStep& step);

  bool make_room(std::int64_t bytes) override;
  void exceed_soft_limit(std::int64_t bytes, std::int64_t bytes_in_use) override;
  void allocated(const void* block, std::int64_t bytes, std::int64_t bytes_in_use) override;
  void freed(const void* block, std::int64_t bytes) override;

 private:
  struct Entry {
    const BudgetStep* key;
    std::weak_ptr<BudgetStep> step;
    std::int64_t limit_bytes;
  };

  MemoryGuard();
  std::vector<std::shared_ptr<BudgetStep>> steps() const;
  void update() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_MEMORY_GUARD_H_
