// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/tape_lookup.h"

#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/engine/watch/wrapped_memory.h"
#include "reprise/hooks/seam/forwarding_engine.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// Of dense tensors. Parameters belong to the model in any case.
bool reads_non_owning(const at::Tensor& tensor) {
  return is_non_owning(tensor) && !is_leaf_with_gradient(tensor);
}

// Buffers, inputs, tables: no operator's result that autograd follows.
bool may_be_written_unseen(const at::Tensor& tensor) { return !tensor.requires_grad(); }

// Wrapped memory, whose owner may fill it again or free it unseen, and numbers. An enclosing record
// must not keep them alive: a region inside looks whether its outside tensors are still there.
bool is_to_be_copied(const at::Tensor& tensor) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  if (!tensor.is_cpu() || tensor.requires_grad()) {
    return false;
  }
  return tensor.dim() == 0 || (is_wrapped(tensor) && tensor.storage().nbytes() <= kMostBytes);
}

// By a torch::autograd::Function, which counts a version beside that of the operator that wrote.
bool is_marked_dirty(const at::Tensor& tensor, std::int64_t version) {
  const torch::autograd::Node* const node = node_of(tensor);
  return node != nullptr && !hooks_internal::is_generated(*node) &&
         version_of(tensor) == version + 1;
}

bool is_same_memory(const at::Tensor& one, const at::Tensor& other) {
  return one.is_cpu() && other.is_cpu() && one.nbytes() == other.nbytes() &&
         (one.nbytes() == 0 ||
          std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0);
}

// Of the storage, if all of it is known. state: see OperatorInterceptor::state_before().
at::Tensor contents_of(const at::Tensor& tensor, const at::Tensor& state) {
  if (!state.defined()) {
    return is_dense(tensor) ? flat(tensor) : tensor;
  }
  return has_whole_storage(state, tensor) ? flat(state) : state;
}

bool is_whole_storage(const at::Tensor& tensor) {
  return tensor.nbytes() == tensor.storage().nbytes();
}

}  // namespace

bool TapeLookup::is_view_of_other(const at::Tensor& tensor) const {
  const TapeValues::Memory* const known = values_.find(storage_id_of(tensor));
  if (known == nullptr) {
    return false;
  }
  const GeometryId geometry = values_[known->current].geometry;
  return geometry == Tape::kNone || !tape_.geometries[geometry].is_of(tensor);
}

TapeLookup::Found TapeLookup::find(const at::Tensor& tensor, Use use, const at::Tensor& state,
                                   const at::Tensor& whole) {
  const bool is_storage = is_dense(tensor) && !(is_of_language(tensor) && is_view_of_other(tensor));
  const StorageId memory =
      is_storage ? storage_id_of(tensor) : static_cast<StorageId>(tensor.unsafeGetTensorImpl());
  const TapeValues::Memory* known = values_.find(memory);
  if (known != nullptr && known->is_supplied && !is_read(use)) {
    known = nullptr;  // the value itself is not written
  }
  if (known != nullptr) {
    values_.note_arrival(known->current, tensor);
  }
  const bool is_outside = known == nullptr || known->is_outside;
  const bool is_statistic = use == Use::kReadStatistics && is_outside;
  const bool is_copied = is_statistic || (is_outside && state.defined()) ||
                         (is_storage && is_read(use) && reads_non_owning(tensor)) ||
                         (is_storage && is_outside && use == Use::kRead && is_to_be_copied(tensor));
  const TapeValueId value =
      is_copied ? copy_non_owning(memory, tensor, state, known)
                : value_of(memory, tensor, known, use == Use::kReadStatistics ? Use::kRead : use);
  Found found{{value, is_storage ? tables_.geometry_of(tensor) : GeometryId()}, memory};
  TapeValues::Info& info = values_[value];
  if (is_read(use) && !info.is_read) {
    info.is_read = true;
    found.is_first_read = true;
  }
  if (is_read(use) && use != Use::kSaved && info.sample == 0 &&
      tape_.values[value].op == Tape::kNone && !is_copied) {
    note_sample(value, tensor, may_be_written_unseen(whole.defined() ? whole : tensor));
  }
  if (use == Use::kRead && (info.is_state || (copies_.of_refillable && is_outside))) {
    found.is_refillable = note_state_read(value, tensor);
  }
  return found;
}

void TapeLookup::note_sample(TapeValueId value, const at::Tensor& tensor, bool of_all_bytes) {
  TapeValues::Info& info = values_[value];
  info.is_whole_sample = of_all_bytes;
  info.sample = sample_of(tensor, info.is_whole_sample);
  if (Tape::Given* const given = values_.input(value)) {
    given->is_whole_sample = info.is_whole_sample;
    given->sample = info.sample;
  }
}

TapeValueId TapeLookup::value_of(StorageId memory, const at::Tensor& tensor,
                                 const TapeValues::Memory* known, Use use) {
  if (known == nullptr) {
    return values_.add_input(memory, tensor, Why::kOutside);
  }
  const TapeValueId current = known->current;
  if (use == Use::kOverwritten && is_dense(tensor) && is_whole_storage(tensor)) {
    return current;
  }
  if (use == Use::kSaved && values_[current].is_rewritten) {
    return values_.add_input(memory, tensor, Why::kOutside);
  }
  if (known->is_outside) {
    return check_unchanged(current, memory, tensor);
  }
  return is_written_out_of_sight(current, tensor, use)
             ? written_out_of_sight(current, memory, tensor)
             : current;
}

bool TapeLookup::is_written_out_of_sight(TapeValueId value, const at::Tensor& tensor,
                                         Use use) const {
  const TapeValues::Info& info = values_[value];
  if (info.counter == counter_id_of(tensor) && version_of(tensor) > info.version &&
      !is_marked_dirty(tensor, info.version)) {
    return true;
  }
  if (info.unfilled_bytes > 0 && use != Use::kOverwritten && use != Use::kCopiedWithin) {
    return true;
  }
  if (!tensor.is_cpu()) {
    return info.is_factorys && (use == Use::kRead || use == Use::kSaved);
  }
  return info.sample != 0 && info.sample != sample_of(tensor, info.is_factorys);
}

TapeValueId TapeLookup::written_out_of_sight(TapeValueId was, StorageId memory,
                                             const at::Tensor& tensor) {
  const Tape::Given* const kept = values_.input(was);
  if (kept != nullptr && kept->kept.alias.defined()) {
    values_.forget(was);
  }
  return replace(was, memory, tensor, Why::kOutOfSight);
}

TapeValueId TapeLookup::replace(TapeValueId was, StorageId memory, const at::Tensor& tensor,
                                Why why) {
  const TapeValueId now = values_.add_input(memory, tensor, why);
  note_sample(now, tensor, may_be_written_unseen(tensor));
  if (values_[was].saved_at_version == version_of(tensor)) {
    pending_writes_.move_slots(was, now);
  }
  return now;
}

void TapeLookup::copy(Tape::Given& given, const at::Tensor& tensor, const at::Tensor& state) {
  given.why = Why::kCopied;
  given.parameter.reset();
  given.kept = KeptResult(TapeValues::copy_of(contents_of(tensor, state)));
  const bool is_of_view = state.defined() && !has_whole_storage(state, tensor);
  given.geometry = !is_dense(tensor) ? GeometryId()
                                     : tables_.geometry_of(is_of_view ? tensor : given.kept.alias);
}

TapeValueId TapeLookup::copy_non_owning(StorageId memory, const at::Tensor& tensor,
                                        const at::Tensor& state, const TapeValues::Memory* known) {
  if (known != nullptr) {
    const Tape::Given* const was = values_.input(known->current);
    if (was != nullptr && was->why == Why::kCopied &&
        is_same_memory(was->kept.alias, contents_of(tensor, state))) {
      return known->current;
    }
  }
  const TapeValueId value = values_.add_input(memory, tensor, Why::kCopied);
  copy(*values_.input(value), tensor, state);
  return value;
}

// State that the region has changed, and perhaps memory that its owner fills again.
bool TapeLookup::note_state_read(TapeValueId value, const at::Tensor& tensor) {
  const bool is_refilled = is_refillable(tensor);
  if (!(is_refilled ? copies_.of_refillable : values_[value].is_state)) {
    return false;
  }
  copy_state(value, tensor);
  return is_refilled && values_.input(value)->why != Why::kCopied;
}

void TapeLookup::note_rewritten(TapeValueId value, const at::Tensor& tensor) {
  TapeValues::Info& info = values_[value];
  const Tape::Given* const given = values_.input(value);
  const bool is_read_there =
      given != nullptr && (given->why == Why::kOutside || given->why == Why::kOutOfSight);
  if (!is_read_there || info.saved_at_version >= 0) {
    return;
  }
  copy_state(value, tensor);
  info.is_rewritten = given->why == Why::kCopied;
  if (!info.is_rewritten) {
    once_ = RunsOnce::kRewrittenMemory;
  } else if (!tensor.is_cpu()) {  // later reads compare versions, not contents
    info.is_state = true;
    values_.note_version(value, tensor);
  }
}

void TapeLookup::copy_state(TapeValueId value, const at::Tensor& tensor) {
  Tape::Given& given = *values_.input(value);
  if (given.why == Why::kCopied || !is_dense(tensor) || is_beyond_storage(tensor)) {
    return;
  }
  const auto bytes = static_cast<std::int64_t>(tensor.storage().nbytes());
  if (bytes > copies_.bytes_left) {
    return;  // compared by version when a replay reads it
  }
  copies_.bytes_left -= bytes;
  copy(given, tensor, {});
}

TapeValueId TapeLookup::check_unchanged(TapeValueId value, StorageId memory,
                                        const at::Tensor& tensor) {
  Tape::Given& was = *values_.input(value);
  const TapeValues::Info& info = values_[value];
  if (was.why == Why::kCopied) {
    const bool is_same = info.is_state && info.counter == counter_id_of(tensor)
                             ? version_of(tensor) == info.version
                             : is_same_memory(was.kept.alias, flat(tensor));
    return is_same ? value : values_.add_input(memory, tensor, Why::kOutside);
  }
  if (was.kept.is_mutated()) {
    was.lost = describe_loss(was);
    return values_.add_input(memory, tensor, was.why);
  }
  if (is_written_uncounted_since(tensor, was.kept.moment)) {
    was.lost = TensorMetadata(tensor).to_string() + kWrittenUncounted;
    return replace(value, memory, tensor, was.why);
  }
  if (info.sample == 0 || info.sample == sample_of(tensor, info.is_whole_sample)) {
    return value;
  }
  was.lost = TensorMetadata(tensor).to_string() + kWrittenThroughPointer;
  return replace(value, memory, tensor, was.why);
}

}  // namespace reprise::engine_internal
