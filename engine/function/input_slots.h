// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The slots that hold the inputs of tape regions inside a function region: see Note [Inputs of
// regions inside].
#ifndef REPRISE_ENGINE_FUNCTION_INPUT_SLOTS_H_
#define REPRISE_ENGINE_FUNCTION_INPUT_SLOTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/recomputation/region_record.h"

namespace reprise::engine_internal {

// Lives for one replay. Only take() changes it.
class InputSlots {
 public:
  // `record` must outlive this. slots: the number of slots that the replay knows.
  InputSlots(const RegionRecord& record, std::size_t slots);

  // Returns the slot of this group that forward gave the same tensor, each slot once; nothing if
  // there is none. provenance: of the tensor, 0 if unknown.
  std::optional<SlotId> take(std::uint32_t group, const at::Tensor& tensor, Provenance provenance);

  // Returns whether the slot is in a group.
  bool contains(SlotId slot) const {
    return !slots_.empty() && is_input_.contains(slot) && is_input_[slot];
  }
  const std::vector<SlotId>& all() const { return slots_; }

 private:
  const RegionRecord& record_;
  std::vector<SlotId> slots_;
  SlotSet is_input_;
  SlotSet is_taken_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_INPUT_SLOTS_H_
