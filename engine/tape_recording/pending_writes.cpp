// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/pending_writes.h"

namespace reprise::engine_internal {
namespace {

// Returns whether tensors saved before a write mean the contents after it. What is in flight when
// it is saved arrives in its own memory; a collective, which may be counted on another thread at
// any time, fills memory for a new purpose.
bool is_meant_by_saved(Transfer transfer, bool is_counted) {
  return transfer == Transfer::kNone ? !is_counted : transfer == Transfer::kWait;
}

}  // namespace

void PendingWrites::settle() {
  for (const TapeValueId value : inputs_) {
    values_.note_version_of_input(value);
  }
  inputs_.clear();
  for (const Write& write : writes_) {
    const bool is_counted = version_of(write.tensor) != write.version;
    values_.note_version(write.after, write.tensor);
    if (is_meant_by_saved(write.transfer, is_counted)) {
      move_slots(write.before, write.after);
    }
  }
  writes_.clear();
  for (const auto& [tensor, value] : reshaped_) {
    values_.note_version(value, tensor);
  }
  reshaped_.clear();
}

void PendingWrites::move_slots(TapeValueId from, TapeValueId to) {
  for (Tape::Tensor& slot : tape_.slots) {
    if (slot.value == from && !slot.is_input) {
      slot.value = to;
      slot.is_written_since = true;
      values_[to].is_read = true;
      values_[to].is_read_again = true;
    }
  }
}

}  // namespace reprise::engine_internal
