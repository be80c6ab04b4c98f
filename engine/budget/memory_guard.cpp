// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/memory_guard.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/step_recording.h"

namespace reprise::engine_internal {

// Never destroyed: memory is freed after the destructors of statics have run.
MemoryGuard& MemoryGuard::instance() {
  static MemoryGuard* const kGuard = new MemoryGuard;
  return *kGuard;
}

MemoryGuard::MemoryGuard() { set_cpu_allocation_observer(this); }

std::vector<std::shared_ptr<BudgetStep>> MemoryGuard::steps() const {
  std::vector<std::shared_ptr<BudgetStep>> steps;
  const MutexLock lock(mutex_);
  for (const Entry& entry : entries_) {
    if (auto step = entry.step.lock()) {
      steps.push_back(std::move(step));
    }
  }
  return steps;
}

void MemoryGuard::add(const std::shared_ptr<BudgetStep>& step) {
  const std::vector<std::shared_ptr<BudgetStep>> known = steps();  // outlive the lock
  const MutexLock lock(mutex_);
  const bool is_known = std::any_of(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.key == step.get(); });
  if (!is_known) {
    update();
    step->raise_peak(take_cpu_peak().current_bytes);
    entries_.push_back({step.get(), step, step->limit_bytes()});
    update();
  }
}

void MemoryGuard::remove(BudgetStep& step) {
  const std::vector<std::shared_ptr<BudgetStep>> known = steps();
  const MutexLock lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.key == &step; });
  if (found != entries_.end()) {
    update();
    entries_.erase(found);
    update();
  }
}

// Assigns the peak so far to the steps, and sets the lowest of their limits.
void MemoryGuard::update() {
  const std::int64_t peak_bytes = take_cpu_peak().peak_bytes;
  std::int64_t limit_bytes = kNoSoftLimit;
  for (const Entry& entry : entries_) {
    limit_bytes = std::min(limit_bytes, entry.limit_bytes);
    if (const auto step = entry.step.lock()) {
      step->raise_peak(peak_bytes);
    }
  }
  set_cpu_soft_limit(limit_bytes);
}

bool MemoryGuard::make_room(std::int64_t bytes) {
  static thread_local bool is_at_it = false;
  if (is_at_it) {
    return false;
  }
  is_at_it = true;
  const absl::Cleanup is_done = [] { is_at_it = false; };
  std::int64_t freed = 0;
  for (const auto& step : steps()) {
    freed += freed < bytes ? step->make_room(bytes - freed) : 0;
  }
  return freed > 0;
}

void MemoryGuard::exceed_soft_limit(std::int64_t bytes, std::int64_t bytes_in_use) {
  for (const auto& step : steps()) {
    if (step->is_on_its_thread() && bytes > step->limit_bytes() - bytes_in_use) {
      step->fail(bytes, bytes_in_use);
    }
  }
}

void MemoryGuard::allocated(const void* block, std::int64_t bytes, std::int64_t bytes_in_use) {
  if (const auto recording = StepRecording::of_this_thread()) {
    recording->recorder().allocated(block, bytes, bytes_in_use);
  }
}

void MemoryGuard::freed(const void* block, std::int64_t bytes) {
  if (const auto recording = StepRecording::now()) {
    recording->recorder().freed(block, bytes);
  }
}

}  // namespace reprise::engine_internal
