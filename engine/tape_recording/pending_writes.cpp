// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/pending_writes.h"

namespace reprise::engine_internal {

void PendingWrites::settle() {
  for (const TapeValueId value : inputs_) {
    Tape::Given* const written = values_.input(value);
    if (written != nullptr && written->kept.alias.defined()) {
      written->kept.version = version_of(written->kept.alias);
      written->kept.moment = current_write_moment();
    }
  }
  inputs_.clear();
  for (const Write& write : writes_) {
    const std::int64_t version = version_of(write.tensor);
    values_.note_version(write.after, write.tensor);
    if (version == write.version) {
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
    }
  }
}

}  // namespace reprise::engine_internal
