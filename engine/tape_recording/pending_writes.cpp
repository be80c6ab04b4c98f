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

void PendingWrites::settle_all(bool is_part) {
  for (const TapeValueId value : inputs_) {
    values_.note_version_of_input(value);
  }
  inputs_.clear();
  std::erase_if(writes_, [&](const Write& write) {
    values_.note_version(write.after, write.tensor);
    if (is_part && write.whole.defined()) {
      return false;
    }
    const at::Tensor& counted = write.whole.defined() ? write.whole : write.tensor;
    const bool is_counted = version_of(counted) != write.version;
    if (is_meant_by_saved(write.transfer, is_counted)) {
      move_slots(write.before, write.after);
    }
    return true;
  });
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
      note_saved(to);
    }
  }
  if (tape_.has_assembled) {
    move_assembled(from, to);
  }
}

// The write stands behind the operator that assembles the tensor: another one does so again.
void PendingWrites::move_assembled(TapeValueId from, TapeValueId to) {
  for (Tape::Tensor& slot : tape_.slots) {
    const TapeOperatorId maker =
        slot.value == Tape::kNone ? TapeOperatorId() : tape_.values[slot.value].op;
    if (slot.is_input || maker == Tape::kNone || !tape_.operators[maker].is_assembly) {
      continue;
    }
    Tape::Operator op = tape_.operators[maker];
    const std::vector<Tape::Argument> arguments(tape_.arguments.begin() + op.first_argument,
                                                tape_.arguments.begin() + op.end_argument);
    bool is_among = false;
    op.first_argument = static_cast<std::uint32_t>(tape_.arguments.size());
    for (Tape::Argument argument : arguments) {
      if (argument.kind == Tape::Argument::Kind::kTensor && argument.number == from.number()) {
        argument.number = static_cast<std::uint32_t>(to.number());
        is_among = true;
      }
      tape_.arguments.push_back(argument);
    }
    if (!is_among) {
      tape_.arguments.resize(op.first_argument, arguments.front());
      continue;
    }
    op.end_argument = static_cast<std::uint32_t>(tape_.arguments.size());
    slot.value = values_.add_assembled(std::move(op));
    slot.is_written_since = true;
    note_saved(to);
  }
}

void PendingWrites::note_saved(TapeValueId value) {
  TapeValues::Info& info = values_[value];
  info.is_read = true;
  info.is_read_again = true;
  info.saved_at_version = info.version;
}

}  // namespace reprise::engine_internal
