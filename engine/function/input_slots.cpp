// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/input_slots.h"

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/kept/input_group.h"

namespace reprise::engine_internal {

InputSlots::InputSlots(const RegionRecord& record, std::size_t slots) : record_(record) {
  for (std::size_t number = 0; number < slots; ++number) {
    if (const SlotId slot(number); record.slots[slot].input_group != 0) {
      slots_.push_back(slot);
    }
  }
  if (!slots_.empty()) {
    is_input_.assign(slots, false);
    is_taken_.assign(slots, false);
    for (const SlotId slot : slots_) {
      is_input_[slot] = true;
    }
  }
}

std::optional<SlotId> InputSlots::take(std::uint32_t group, const at::Tensor& tensor,
                                       Provenance provenance) {
  const auto first_that = [&](const auto& matches) -> std::optional<SlotId> {
    for (const SlotId slot : slots_) {
      const RegionRecord::Slot& recorded = record_.slots[slot];
      if (recorded.input_group == group && !is_taken_[slot] && matches(recorded.saved)) {
        is_taken_[slot] = true;
        return slot;
      }
    }
    return std::nullopt;
  };
  if (const auto slot = first_that([&](const SavedTensorRecord& saved) {
        return saved.shares_memory_with(tensor) && saved.metadata().matches_shape(tensor);
      })) {
    return slot;
  }
  return first_that([&](const SavedTensorRecord& saved) {
    if (saved.is_captured()) {
      return false;  // another tensor from outside
    }
    return saved.provenance() == provenance &&
           (provenance != 0 || saved.metadata().matches(tensor));
  });
}

}  // namespace reprise::engine_internal
