// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/memory_guard.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/allocation/cpu_allocations.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/step_recording.h"

namespace reprise::engine_internal {
namespace {

// Of CPU memory.
class AllocationGuard final : public CpuAllocationObserver {
 public:
  explicit AllocationGuard(MemoryGuard& guard) : guard_(guard) {}

  bool make_room(std::int64_t bytes, std::int64_t bytes_after) override {
    return guard_.make_room(bytes, bytes_after);
  }

  void exceed_soft_limit(std::int64_t bytes, std::int64_t bytes_in_use) override {
    for (const auto& step : guard_.steps()) {
      if (step->is_on_its_thread() && bytes > step->limit_bytes() - bytes_in_use) {
        step->fail({.bytes = bytes, .bytes_in_use = bytes_in_use});
      }
    }
  }

  void allocated(const void* block, std::int64_t bytes, std::int64_t bytes_in_use) override {
    if (const auto recording = StepRecording::now()) {
      recording->allocated_on_any_thread(block, bytes, bytes_in_use);
    }
  }

  void freed(const void* block, std::int64_t bytes) override {
    if (const auto recording = StepRecording::now()) {
      recording->freed(block, bytes);
    }
  }

 private:
  MemoryGuard& guard_;
};

struct Guards {
  Mutex mutex;
  std::vector<MemoryGuard*> all ABSL_GUARDED_BY(mutex);
};

// Never destroyed: memory is freed after the destructors of statics have run.
Guards& guards() {
  static auto* const kGuards = new Guards;
  return *kGuards;
}

}  // namespace

MemoryGuard& MemoryGuard::of(c10::Device device) {
  MemorySource& source = memory_source(device);
  Guards& known = guards();
  const MutexLock lock(known.mutex);
  for (MemoryGuard* const guard : known.all) {
    if (&guard->source_ == &source) {
      return *guard;
    }
  }
  auto* const guard = new MemoryGuard(source);
  known.all.push_back(guard);
  if (device.is_cpu()) {
    set_cpu_allocation_observer(new AllocationGuard(*guard));
  }
  return *guard;
}

std::vector<MemoryGuard*> MemoryGuard::between_operators() {
  std::vector<MemoryGuard*> busy;
  Guards& known = guards();
  const MutexLock lock(known.mutex);
  for (MemoryGuard* const guard : known.all) {
    const MutexLock entries(guard->mutex_);
    const bool has_held = std::any_of(guard->entries_.begin(), guard->entries_.end(),
                                      [](const Entry& entry) { return entry.holds > 0; });
    if (!guard->source_.keeps_limit() && has_held) {
      busy.push_back(guard);
    }
  }
  return busy;
}

std::vector<std::shared_ptr<BudgetStep>> MemoryGuard::all_steps() {
  std::vector<MemoryGuard*> all;
  {
    Guards& known = guards();
    const MutexLock lock(known.mutex);
    all = known.all;
  }
  std::vector<std::shared_ptr<BudgetStep>> found;
  for (const MemoryGuard* const guard : all) {
    for (auto& step : guard->steps(/*only_held=*/false)) {
      found.push_back(std::move(step));
    }
  }
  return found;
}

std::vector<std::shared_ptr<BudgetStep>> MemoryGuard::steps(bool only_held) const {
  std::vector<std::shared_ptr<BudgetStep>> steps;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.holds > 0 || !only_held) {
      if (auto step = entry.step.lock()) {
        steps.push_back(std::move(step));
      }
    }
  }
  return steps;
}

void MemoryGuard::add(const std::shared_ptr<BudgetStep>& step, const BudgetState* budget) {
  const MutexLock lock(mutex_);
  entries_.push_back({step.get(), step, budget, step->limit_bytes()});
}

void MemoryGuard::forget(BudgetStep& step) {
  const auto known = steps();  // outlive the lock
  const MutexLock lock(mutex_);
  if (Entry* const entry = find(step)) {
    update();
    entries_.erase(entries_.begin() + (entry - entries_.data()));
    update();
  }
}

void MemoryGuard::hold(BudgetStep& step) {
  const auto known = steps();
  const MutexLock lock(mutex_);
  Entry* const entry = find(step);
  if (entry != nullptr) {
    update();
    if (entry->holds++ == 0) {
      step.raise_peak(source_.take_peak().current_bytes);
      update();
    }
  }
}

void MemoryGuard::release(BudgetStep& step) {
  const auto known = steps();
  const MutexLock lock(mutex_);
  Entry* const entry = find(step);
  if (entry != nullptr && entry->holds > 0) {
    update();
    --entry->holds;
    update();
  }
}

void MemoryGuard::assign_peak() {
  const auto known = steps();
  const MutexLock lock(mutex_);
  update();
}

MemoryGuard::Entry* MemoryGuard::find(const BudgetStep& step) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == &step; });
  return found == entries_.end() ? nullptr : &*found;
}

// Assigns the peak so far to the steps, and sets the lowest of their limits.
void MemoryGuard::update() {
  const std::int64_t peak_bytes = source_.take_peak().peak_bytes;
  std::int64_t limit_bytes = kNoLimit;
  for (const Entry& entry : entries_) {
    const auto step = entry.holds > 0 ? entry.step.lock() : nullptr;
    if (step != nullptr) {
      limit_bytes = std::min(limit_bytes, entry.limit_bytes);
      step->raise_peak(peak_bytes);
    }
  }
  source_.set_limit(limit_bytes);
}

std::vector<std::shared_ptr<BudgetStep>> MemoryGuard::steps_to_evict(
    std::int64_t bytes_after) const {
  std::vector<std::shared_ptr<BudgetStep>> steps;
  const MutexLock lock(mutex_);
  const auto is_exceeded = [&](const BudgetState* budget) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
      return entry.budget == budget && entry.holds > 0 && bytes_after > entry.limit_bytes;
    });
  };
  for (const Entry& entry : entries_) {
    if (bytes_after == kNoLimit || is_exceeded(entry.budget)) {
      if (auto step = entry.step.lock()) {
        steps.push_back(std::move(step));
      }
    }
  }
  return steps;
}

std::int64_t MemoryGuard::supplied_bytes(const BudgetState& budget) const {
  if (budget.supplied() == 0) {
    return 0;
  }
  std::int64_t bytes = 0;
  for (const auto& step : steps(/*only_held=*/false)) {
    bytes += step->is_of(budget) ? step->supplied_bytes() : 0;
  }
  return bytes;
}

bool MemoryGuard::make_room(std::int64_t bytes, std::int64_t bytes_after) {
  static thread_local bool is_at_it = false;
  if (is_at_it) {
    return false;
  }
  is_at_it = true;
  const absl::Cleanup is_done = [] { is_at_it = false; };
  std::int64_t freed = 0;
  const auto steps = steps_to_evict(bytes_after);
  for (const auto& step : steps) {
    freed += freed < bytes ? step->drop_supplied(bytes - freed) : 0;
  }
  for (const auto& step : steps) {
    freed += freed < bytes ? step->make_room(bytes - freed) : 0;
  }
  return freed > 0;
}

std::int64_t MemoryGuard::make_room_for(std::int64_t bytes) {
  std::int64_t missing = source_.shortage(bytes);
  while (missing > 0 && make_room(missing, source_.bytes_in_use() + bytes)) {
    missing = source_.shortage(bytes);
  }
  return missing;
}

}  // namespace reprise::engine_internal
