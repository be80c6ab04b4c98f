// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/replay_origins.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise::engine_internal {

std::uint32_t ReplayOrigins::add(std::string description, Forbids forbids) {
  strictest_ = std::min(strictest_, forbids);
  descriptions_.push_back(std::move(description));
  const auto index = static_cast<std::uint32_t>(descriptions_.size() - 1);
  const std::uint32_t origin = static_cast<std::uint32_t>(forbids) * kOrigins + index;
  first_stale_ = is_stale(origin) ? std::min(first_stale_, origin) : first_stale_;
  return origin;
}

void StaleSlots::note_unused(std::span<const StorageId> memory) {
  for (const Save& save : saves_since_operator_) {
    if (std::find(memory.begin(), memory.end(), save.memory) != memory.end()) {
      unused_.insert(save.slot);
    }
  }
}

void StaleSlots::note_found(StorageId memory, std::uint32_t origin) {
  for (const Save& save : saves_since_operator_) {
    if (save.memory == memory) {
      note_origin(save.slot, origin);
    }
  }
}

std::vector<StaleSlots::Slot> StaleSlots::all() const {
  std::vector<Slot> found;
  std::copy_if(stale_.begin(), stale_.end(), std::back_inserter(found),
               [this](const Slot& each) { return !is_unused(each.slot); });
  return found;
}

}  // namespace reprise::engine_internal
