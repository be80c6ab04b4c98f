// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/steps_in_flight.h"

#include <algorithm>
#include <utility>

namespace reprise::engine_internal {

void RecentlyInFlight::Window::raise(const InFlight& seen, std::int64_t base_bytes) {
  most.alike = std::max(most.alike, seen.alike);
  most.other_bytes = std::max(most.other_bytes, seen.other_bytes);
  highest_base = std::max(highest_base, base_bytes);
}

void RecentlyInFlight::note(const InFlight& seen, std::int64_t base_bytes) {
  constexpr int kSteps = 32;
  known_.raise(seen, base_bytes);
  next_.raise(seen, base_bytes);
  if (++steps_ == kSteps) {
    known_ = std::exchange(next_, {});
    steps_ = 0;
  }
}

std::int64_t StepsInFlight::begin(const BudgetStep& step) {
  const MutexLock lock(mutex_);
  entries_.push_back({.step = &step});
  return sum_beside(&step);
}

std::int64_t StepsInFlight::held_beside(const BudgetStep* step) const {
  const MutexLock lock(mutex_);
  return sum_beside(step);
}

std::int64_t StepsInFlight::sum_beside(const BudgetStep* step) const {
  std::int64_t held_bytes = 0;
  for (const Entry& entry : entries_) {
    held_bytes += entry.step == step ? 0 : entry.held_bytes;
  }
  return held_bytes;
}

void StepsInFlight::end_forward(const BudgetStep& step, int kind, std::int64_t held_bytes) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = find(step)) {
    entry->is_in_forward = false;
    entry->kind = kind;
    entry->held_bytes = std::max<std::int64_t>(held_bytes, 0);
  }
  update();
}

void StepsInFlight::note_evicted(const BudgetStep& step, std::int64_t bytes) {
  const MutexLock lock(mutex_);
  if (Entry* const entry = find(step)) {
    entry->held_bytes = std::max<std::int64_t>(entry->held_bytes - bytes, 0);
  }
}

InFlight StepsInFlight::most(const BudgetStep& step) {
  const MutexLock lock(mutex_);
  const Entry* const entry = find(step);
  return entry == nullptr ? InFlight() : entry->most;
}

InFlight StepsInFlight::end(const BudgetStep& step) {
  const MutexLock lock(mutex_);
  Entry* const entry = find(step);
  if (entry == nullptr) {
    return {};
  }
  const InFlight most = entry->most;
  entries_.erase(entries_.begin() + (entry - entries_.data()));
  return most;
}

StepsInFlight::Entry* StepsInFlight::find(const BudgetStep& step) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.step == &step; });
  return found == entries_.end() ? nullptr : &*found;
}

void StepsInFlight::update() {
  for (Entry& entry : entries_) {
    InFlight now{.alike = 0};
    for (const Entry& other : entries_) {
      const bool is_alike = other.kind == entry.kind || other.kind < 0 || entry.kind < 0;
      now.alike += is_alike && !other.is_in_forward ? 1 : 0;
      now.other_bytes += is_alike ? 0 : other.held_bytes;
    }
    entry.most.alike = std::max(entry.most.alike, now.alike);
    entry.most.other_bytes = std::max(entry.most.other_bytes, now.other_bytes);
  }
}

}  // namespace reprise::engine_internal
