// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The slots that a tape replay fills from the values that it has computed.
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape_replay/tape_replay.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

void TapeReplay::free_if_unused(TapeValueId value) {
  if (!is_used_later(value)) {
    work_[value].base = {};
  }
}

bool TapeReplay::is_used_later(TapeValueId value) const {
  const Work& work = work_[value];
  return work.pass_uses > 0 || (work.uses > 0 && liveness_->stays(value)) ||
         liveness_->is_awaited(value);
}

std::vector<std::pair<TapeValueId, SlotId>>::const_iterator TapeReplay::slots_from(
    TapeValueId value) const {
  return std::lower_bound(slots_.begin(), slots_.end(), std::pair(value, SlotId(0)));
}

bool TapeReplay::is_in_freed_memory(TapeValueId value) const {
  const auto refilled = tape_.refilled.find(value);
  return refilled != tape_.refilled.end() && refilled->second.whole.is_freed();
}

void TapeReplay::fill_slots_of(TapeValueId value, Wants wants) {
  if (!liveness_->stays(value)) {
    liveness_->fill_asked_slots(value, wants);
    return;
  }
  // See Note [Refilled memory].
  const bool waits =
      !tape_.refilled.empty() && work_[value].asked_in != pass_ && is_in_freed_memory(value);
  for (auto next = slots_from(value); !waits && next != slots_.end() && next->first == value;
       ++next) {
    if (wants(next->second)) {
      fill_slot(next->second);
    }
  }
}

void TapeReplay::fill_slot(SlotId slot) {
  if (filled_in_[slot] == pass_) {
    return;
  }
  filled_in_[slot] = pass_;
  const bool is_held = tape_.slots[slot].value == Tape::kNone;
  at::Tensor tensor = is_held ? held_tensor(slot) : look_at(tape_.slots[slot]);
  if (tape_.slots[slot].geometry == Tape::kNone) {
    tensor = hooks_internal::detached_alias(tensor);
  }
  check_contents(slot, tensor);
  const std::int64_t version = version_of(tensor);
  const TapeValueId value = tape_.slots[slot].value;
  const bool is_moved =
      !tape_.refilled.empty() && !is_held && tape_.refilled.contains(value) && !is_available(value);
  filled_.emplace_back(slot, RecomputedTensor{std::move(tensor), version, is_moved});
  if (is_held) {
    return;
  }
  work_[value].filled_in = pass_;
  work_[value].filled_at = static_cast<std::uint32_t>(filled_.size() - 1);
  if (is_available(value) && !work_[value].is_brought_back) {
    free_if_unused(value);
  }
}

// Fetching the value again would cost as much again.
void TapeReplay::fill_slots_of_brought_back(TapeValueId value, Wants wants) {
  if (work_[value].is_brought_back) {
    fill_slots_of(value, wants);
    work_[value].is_brought_back = false;
    free_if_unused(value);
  }
}

void TapeReplay::check_contents(SlotId slot, const at::Tensor& tensor) const {
  if (tape_.slots[slot].is_written_since) {
    return;
  }
  if (auto difference =
          record_.slots[slot].saved.difference_of_contents(tensor, record_.check_options())) {
    throw DeterminismError(c10::str("[checkpoint] region '", record_.name, "': slot ", slot,
                                    " (result of ", record_.slots[slot].saved.producer(),
                                    ") is not recomputed as it was saved: ", *difference));
  }
}

}  // namespace reprise::engine_internal
