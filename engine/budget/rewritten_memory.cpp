// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/rewritten_memory.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/operators/uncounted_writes.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// Returns the tensor that a replay would read; undefined for others than those of the program.
at::Tensor tensor_of(Tape::Given& given) {
  const bool is_programs = given.why == Why::kOutside || given.why == Why::kOutOfSight;
  if (!is_programs || given.parameter.defined() || (given.input && given.input->is_packed())) {
    return {};
  }
  return given.input ? given.input->restore() : given.kept.alias;
}

// Returns an error message if its memory has been written to since an operator of forward read it.
std::optional<std::string> change_of(Tape::Given& given, RewrittenMemory::By by) {
  const at::Tensor tensor = tensor_of(given);
  if (!tensor.defined()) {
    return std::nullopt;
  }
  if (given.input) {
    if (std::optional<std::string> change = given.input->in_place_change(tensor)) {
      return change;
    }
  } else if (given.kept.is_mutated()) {
    return describe_loss(given);
  }
  if (!is_dense(tensor) || is_beyond_storage(tensor)) {
    return std::nullopt;
  }
  if (is_written_uncounted_since(tensor, given.kept.moment)) {
    return TensorMetadata(tensor).to_string() + kWrittenUncounted;
  }
  const bool has_other_contents = by == RewrittenMemory::By::kContents && given.sample != 0 &&
                                  sample_memory(tensor, given.is_whole_sample) != given.sample;
  return has_other_contents
             ? std::optional(TensorMetadata(tensor).to_string() + kWrittenThroughPointer)
             : std::nullopt;
}

TapeValueSet saved_values(const Tape& tape) {
  TapeValueSet saved(tape.values.size());
  for (const Tape::Tensor& slot : tape.slots) {
    if (slot.value != Tape::kNone) {
      saved[slot.value] = true;
    }
  }
  return saved;
}

}  // namespace

bool RewrittenMemory::find(Tape& tape, By by) {
  std::vector<std::pair<TapeValueId, std::string>> changes;
  for (auto& [value, given] : tape.given) {
    if (given.lost && by == By::kVersion) {
      continue;  // by a write in forward, which matters only if a replay reads there
    }
    if (std::optional<std::string> change = given.lost ? given.lost : change_of(given, by)) {
      changes.emplace_back(value, *std::move(change));
    }
  }
  if (changes.empty()) {
    return false;
  }
  const TapeValueSet saved = saved_values(tape);
  TapeValueSet written(tape.values.size());
  for (auto& [value, change] : changes) {
    if (saved[value]) {
      continue;
    }
    Tape::Given& given = tape.given.at(value);
    if (const at::Tensor tensor = tensor_of(given); tensor.defined()) {
      memory_.set(tensor, [] { return true; });
    }
    if (by == By::kVersion) {
      given.lost = std::move(change);
    }
    written[value] = true;
  }
  return note_readers(tape, written);
}

bool RewrittenMemory::note_readers(const Tape& tape, const TapeValueSet& written) {
  bool is_new = false;
  const MutexLock lock(mutex_);
  for (const Tape::Operator& op : tape.operators) {
    for (std::uint32_t i = op.first_argument; i < op.end_argument; ++i) {
      const Tape::Argument& argument = tape.arguments[i];
      if (argument.kind == Tape::Argument::Kind::kTensor && written[TapeValueId(argument.number)]) {
        Operators& readers = readers_[{op.ordinal, i - op.first_argument}];
        if (std::find(readers.begin(), readers.end(), op.op) == readers.end()) {
          readers.push_back(op.op);
          is_new = true;
        }
      }
    }
  }
  if (is_new) {
    has_any_.store(true, std::memory_order_release);
  }
  return is_new;
}

bool RewrittenMemory::is_known(const c10::OperatorHandle& op, std::uint32_t ordinal,
                               std::uint32_t place, const at::Tensor& tensor) const {
  if (memory_.find(storage_of(tensor))) {
    return true;
  }
  const MutexLock lock(mutex_);
  const auto found = readers_.find({ordinal, place});
  return found != readers_.end() &&
         std::find(found->second.begin(), found->second.end(), op) != found->second.end();
}

}  // namespace reprise::engine_internal
