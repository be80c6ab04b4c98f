// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The value of the tape that a tensor's memory holds, and the detection of writes outside the
// dispatcher.
//
// Note [Out of sight]: memory from empty() that is read before operators have filled it has been
// filled through a pointer. Other results on the CPU are sampled, and compared when they are read,
// saved, or partly overwritten. Results made of constants alone, as by zeros_like(), are made to be
// filled, and compared as a whole; on a device, where a comparison would have to synchronise, they
// count as filled when they are read. A value that was found to be written is a tape input from
// then on. Slots that look at it hold the written contents, as SavedVariables do without
// checkpointing.
#include <c10/util/StringUtil.h>

#include <cstring>

#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

bool is_leaf_with_gradient(const at::Tensor& tensor) {
  return tensor.is_leaf() && tensor.requires_grad();
}

// Parameters belong to the model in any case.
bool reads_non_owning(const at::Tensor& tensor) {
  return !is_leaf_with_gradient(tensor) && is_dense(tensor) && is_non_owning(tensor);
}

bool is_same_memory(const at::Tensor& one, const at::Tensor& other) {
  return one.is_cpu() && other.is_cpu() && one.nbytes() == other.nbytes() &&
         (one.nbytes() == 0 ||
          std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0);
}

bool is_whole_storage(const at::Tensor& tensor) {
  return tensor.nbytes() == tensor.storage().nbytes();
}

}  // namespace

Tape::Tensor TapeRecorder::look_up(const at::Tensor& tensor, Use use) {
  const StorageId memory = TapeValues::key_of(tensor);
  const TapeValues::Memory* const found = values_.find(memory);
  const bool is_statistic = use == Use::kReadStatistics && (found == nullptr || found->is_outside);
  use = use == Use::kReadStatistics ? Use::kRead : use;
  const bool is_copied = is_statistic || (use == Use::kRead && reads_non_owning(tensor));
  TapeValueId value;
  if (is_copied) {
    value = look_up_non_owning(memory, tensor);
  } else if (found == nullptr) {
    value = values_.add_input(memory, tensor, Why::kOutside);
  } else if (found->is_outside) {
    value = check_unchanged(found->current, memory, tensor);
  } else if (is_written_out_of_sight(found->current, tensor, use)) {
    value = written_out_of_sight(found->current, memory, tensor);
  } else {
    value = found->current;
  }
  TapeValues::Info& info = values_[value];
  if (use == Use::kRead && !info.is_read) {
    info.is_read = true;
    read_now_.push_back(value);
    if (tape_.values[value].op == Tape::kNone && !is_copied && !is_leaf_with_gradient(tensor)) {
      info.sample = sample_of(tensor, /*of_all_bytes=*/false);
    }
  }
  if (use != Use::kRead) {
    note_target(tensor, value);
  }
  return {value, is_dense(tensor) ? tables_.geometry_of(tensor) : GeometryId()};
}

MemorySample TapeRecorder::sample_of(const at::Tensor& tensor, bool of_all_bytes) {
  return is_dense(tensor) ? sample_memory(tensor, of_all_bytes) : 0;
}

bool TapeRecorder::is_written_out_of_sight(TapeValueId value, const at::Tensor& tensor,
                                           Use use) const {
  const TapeValues::Info& info = values_[value];
  const bool is_overwritten = use == Use::kOverwritten;
  if (is_overwritten && is_whole_storage(tensor)) {
    return false;
  }
  if (info.unfilled_bytes > 0 && !is_overwritten) {
    return true;
  }
  if (!tensor.is_cpu()) {
    return info.is_factorys && use == Use::kRead;
  }
  return info.sample != 0 && info.sample != sample_of(tensor, info.is_factorys);
}

// A result that the policy retains in its own memory has been overwritten as well: it is
// recomputed.
TapeValueId TapeRecorder::written_out_of_sight(TapeValueId was, StorageId memory,
                                               const at::Tensor& tensor) {
  if (const Tape::Given* const kept = values_.input(was);
      kept != nullptr && kept->kept.alias.defined()) {
    values_.forget(was);
  }
  return replace_given(was, memory, tensor, Why::kOutOfSight);
}

// A write that version counters do not count is visible in the tensors that autograd has saved.
TapeValueId TapeRecorder::replace_given(TapeValueId was, StorageId memory, const at::Tensor& tensor,
                                        Why why) {
  const TapeValueId now = values_.add_input(memory, tensor, why);
  values_[now].sample = sample_of(tensor, /*of_all_bytes=*/false);
  if (values_[was].saved_at_version == version_of(tensor)) {
    pending_writes_.move_slots(was, now);
  }
  return now;
}

// The owner of the memory may write to it or free it unseen: each state of it is copied.
TapeValueId TapeRecorder::look_up_non_owning(StorageId memory, const at::Tensor& tensor) {
  const TapeValues::Memory* const found = values_.find(memory);
  const at::Tensor now = flat(tensor);
  if (found != nullptr) {
    const Tape::Given* const known = values_.input(found->current);
    if (known != nullptr && known->why == Why::kCopied && is_same_memory(known->kept.alias, now)) {
      return found->current;
    }
  }
  const TapeValueId value = values_.add_input(memory, tensor, Why::kCopied);
  tape_.given.at(value).kept = KeptResult(copy_of(now));
  tape_.given.at(value).geometry = tables_.geometry_of(now);
  return value;
}

// A value from outside that has been modified since the region read it is a new value.
TapeValueId TapeRecorder::check_unchanged(TapeValueId value, StorageId memory,
                                          const at::Tensor& tensor) {
  Tape::Given& was = tape_.given.at(value);
  if (was.why == Why::kCopied) {
    const bool is_same = is_same_memory(was.kept.alias, flat(tensor));
    return is_same ? value : values_.add_input(memory, tensor, Why::kOutside);
  }
  if (was.kept.is_mutated()) {
    was.lost = describe_loss(was);
    return values_.add_input(memory, tensor, was.why);
  }
  const MemorySample sample = values_[value].sample;
  if (sample == 0 || sample == sample_of(tensor, /*of_all_bytes=*/false)) {
    return value;
  }
  was.lost = c10::str(TensorMetadata(tensor).to_string(),
                      ", which has been written through a pointer since it was read");
  return replace_given(value, memory, tensor, was.why);
}

void TapeRecorder::note_versions() {
  settle();
  pending_writes_.settle();
}

}  // namespace reprise::engine_internal
