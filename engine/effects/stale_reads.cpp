// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/effects/stale_reads.h"

#include <algorithm>
#include <iterator>

namespace reprise::engine_internal {

void StaleReads::note_unused(std::span<const StorageId> memory) {
  for (const auto& [slot, saved] : saves_since_operator_) {
    if (std::find(memory.begin(), memory.end(), saved) != memory.end()) {
      unused_slots_.insert(slot);
    }
  }
}

void StaleReads::note_other(StorageId memory, const std::string& message) {
  stale_.insert_or_assign(memory, message);
  for (const auto& [slot, saved] : saves_since_operator_) {
    if (saved == memory) {
      stale_slots_.push_back({slot, message});
    }
  }
}

void StaleReads::note_operator(std::span<const StorageId> inputs,
                               std::span<const StorageId> outputs,
                               std::optional<std::string> stale) {
  saves_since_operator_.clear();
  if (!stale && stale_.empty()) {
    return;
  }
  const auto is_stale = [this](StorageId memory) { return stale_.contains(memory); };
  if (!stale) {
    const auto found = std::find_if(inputs.begin(), inputs.end(), is_stale);
    if (found != inputs.end()) {
      stale = stale_.at(*found);
    }
  }
  if (stale && outputs.empty() && !host_read_) {
    host_read_ = stale;
  }
  for (const StorageId memory : outputs) {
    if (stale) {
      stale_.insert_or_assign(memory, *stale);
    } else {
      stale_.erase(memory);  // its address has been reused
    }
  }
}

void StaleReads::note_save(SlotId slot, StorageId memory) {
  saves_since_operator_.emplace_back(slot, memory);
  if (const auto found = stale_.find(memory); found != stale_.end()) {
    stale_slots_.push_back({slot, found->second});
  }
}

std::vector<StaleReads::Conflict> StaleReads::conflicts() const {
  std::vector<Conflict> found;
  std::copy_if(stale_slots_.begin(), stale_slots_.end(), std::back_inserter(found),
               [this](const Conflict& conflict) { return !is_unused(conflict.slot); });
  return found;
}

}  // namespace reprise::engine_internal
