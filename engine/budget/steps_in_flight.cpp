// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/steps_in_flight.h"

#include <algorithm>

namespace reprise::engine_internal {

std::int64_t StepsInFlight::begin(const BudgetStep& step) {
  entries_.push_back({.step = &step});
  return held_beside(&step);
}

std::int64_t StepsInFlight::held_beside(const BudgetStep* step) const {
  std::int64_t held_bytes = 0;
  for (const Entry& entry : entries_) {
    held_bytes += entry.step == step ? 0 : entry.held_bytes;
  }
  return held_bytes;
}

void StepsInFlight::end_forward(const BudgetStep& step, int kind, std::int64_t held_bytes) {
  for (Entry& entry : entries_) {
    if (entry.step == &step) {
      entry.is_in_forward = false;
      entry.kind = kind;
      entry.held_bytes = std::max<std::int64_t>(held_bytes, 0);
    }
  }
  update();
}

void StepsInFlight::note_evicted(const BudgetStep& step, std::int64_t bytes) {
  for (Entry& entry : entries_) {
    if (entry.step == &step) {
      entry.held_bytes = std::max<std::int64_t>(entry.held_bytes - bytes, 0);
    }
  }
}

InFlight StepsInFlight::end(const BudgetStep& step) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.step == &step; });
  if (found == entries_.end()) {
    return {};
  }
  const InFlight most = found->most;
  entries_.erase(found);
  return most;
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
