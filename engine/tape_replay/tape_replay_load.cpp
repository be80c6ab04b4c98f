// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tensors that a replay passes to operators and slots.
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/engine/tape_replay/tape_replay.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// Returns the tensor with the strides of forward's, if a hook or store has returned others.
at::Tensor with_strides(at::Tensor tensor, const Geometry& geometry) {
  if (hooks_internal::are_same_dims(geometry.strides, tensor.strides())) {
    return tensor;
  }
  const at::Tensor made = at::empty_strided(geometry.sizes, geometry.strides, tensor.options());
  at::Tensor target = made;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    if (made.stride(dim) == 0 && made.size(dim) > 1) {  // expanded: one element for all
      target = target.narrow(dim, 0, 1);
      tensor = tensor.narrow(dim, 0, 1);
    }
  }
  target.copy_(tensor);
  return made;
}

}  // namespace

at::Tensor TapeReplay::look_at(const Tape::Tensor& tensor) {
  const auto written = std::find_if(written_.begin(), written_.end(),
                                    [&](const auto& entry) { return entry.first == tensor.value; });
  const Base& base = written == written_.end() ? base_of(tensor.value) : written->second;
  return tensor.geometry == Tape::kNone
             ? base.tensor
             : tape_.geometries[tensor.geometry].look_at(base.tensor, base.shift);
}

// An argument that is only read may be the value's own tensor if its geometry is that of forward's.
at::Tensor TapeReplay::argument_from(const Tape::Tensor& tensor) {
  const bool is_written = std::any_of(written_.begin(), written_.end(), [&](const auto& entry) {
    return entry.first == tensor.value;
  });
  if (is_written) {
    return look_at(tensor);
  }
  const Base& base = base_of(tensor.value);
  if (base.overwritten != nullptr) {
    fail_mutated(c10::str("a tensor from outside the region, ",
                          TensorMetadata(base.tensor).to_string(), base.overwritten));
  }
  const bool is_whole = written_.empty() && tensor.geometry != Tape::kNone && base.shift == 0 &&
                        tape_.geometries[tensor.geometry].is_of(base.tensor);
  return is_whole ? base.tensor : look_at(tensor);
}

const TapeReplay::Base& TapeReplay::base_of(TapeValueId value) {
  Work& work = work_[value];
  Base& base = work.base;
  if (!base.tensor.defined() || (work.may_be_freed && is_beyond_storage(base.tensor))) {
    base = load(value);
  } else if (version_of(base.tensor) != base.version && !record_.allow_external_mutation) {
    fail_mutated(c10::str(TensorMetadata(base.tensor).to_string(),
                          ", which has been changed in place since it was recomputed"));
  }
  return base;
}

TapeReplay::Base TapeReplay::load(TapeValueId value) {
  if (const auto now = refilled_now_.find(value); now != refilled_now_.end()) {
    return {now->second, 0, version_of(now->second)};
  }
  const auto found = tape_.given.find(value);
  TORCH_INTERNAL_ASSERT(found != tape_.given.end(), "a value that nothing has made");
  Tape::Given& given = found->second;
  if (given.why == Why::kUnset) {
    const Geometry& whole = tape_.geometries[given.geometry];
    return {at::empty(whole.sizes, at::TensorOptions(whole.dtype).device(given.device))};
  }
  at::Tensor tensor = load_tensor(given);
  const bool is_original = given.why == Why::kOutside || given.why == Why::kOutOfSight;
  if (is_original) {
    work_[value].may_be_freed = refill(tensor);
  }
  const bool may_be_freed =
      is_original || (given.why == Why::kPolicy && given.kept.alias.defined());
  if (may_be_freed && is_beyond_storage(tensor)) {
    fail_mutated(c10::str(
        "a tensor ",
        given.why == Why::kPolicy ? "that the policy keeps, " : "from outside the region, ",
        TensorMetadata(tensor).to_string(), ", whose storage has been resized to ",
        tensor.storage().nbytes(), " bytes since"));
  }
  work_[value].is_brought_back =
      given.kept.stored != nullptr || (given.input && given.input->is_packed());
  if (given.geometry != Tape::kNone) {
    tensor = with_strides(std::move(tensor), tape_.geometries[given.geometry]);
  }
  // Saved tensors are then as they are without checkpointing.
  const bool is_compared =
      is_original && !record_.allow_external_mutation && !given.parameter.defined();
  return {tensor, shift_of(tensor, given.geometry), version_of(tensor),
          is_compared ? written_unseen(given, tensor) : nullptr};
}

// Returns the end of a message if it no longer has the contents that forward's operators read, at
// the same version; otherwise null.
const char* TapeReplay::written_unseen(const Tape::Given& given, const at::Tensor& tensor) {
  if (!hooks_internal::is_dense(tensor)) {
    return nullptr;
  }
  const bool is_in_its_memory = !given.input || given.input->is_original(tensor);
  if (is_in_its_memory && is_written_uncounted_since(tensor, given.kept.moment)) {
    return kWrittenUncounted;
  }
  if (given.sample == 0) {
    return nullptr;
  }
  MemorySample now = given.sample;
  if (is_in_its_memory) {
    now = sample_memory(tensor, given.is_whole_sample);
  } else if (tensor.is_contiguous() &&
             given.input->kept_bytes() == hooks_internal::byte_count(tensor) &&
             given.input->is_in_exact_store()) {  // see Note [Late reads]
    now = sample_contiguous(tensor, given.is_whole_sample);
  }
  return now != given.sample ? kWrittenThroughPointer : nullptr;
}

// Has the owner of refillable memory fill the memory, unless it has its bytes, or may not be asked.
// Returns whether there is such an owner.
bool TapeReplay::refill(const at::Tensor& tensor) const {
  const Refill refill = refill_of(tensor);
  if (refill != nullptr && liveness_->may_refill() && is_beyond_storage(tensor)) {
    const hooks_internal::UnseenScope unseen;
    refill->fill();
  }
  return refill != nullptr;
}

std::int64_t TapeReplay::shift_of(const at::Tensor& tensor, GeometryId geometry) const {
  return geometry == Tape::kNone ? 0 : tensor.storage_offset() - tape_.geometries[geometry].offset;
}

// Of a parameter whose manager may have freed and gathered it since.
at::Tensor TapeReplay::parameter_now(const Tape::Given& given) const {
  const Geometry& geometry = tape_.geometries[given.geometry];
  refill(given.parameter);
  at::Tensor now = hooks_internal::detached_alias(given.parameter);
  const bool is_whole =
      hooks_internal::are_same_dims(geometry.sizes, now.sizes()) && !is_beyond_storage(now);
  if (!is_whole) {
    throw MutationError(c10::str(
        "[checkpoint] region '", record_.name,
        "': ", running_ ? describe_operator(*running_) : "a saved tensor",
        running_ ? " reads" : " is", " a parameter, ", geometry.dtype, " [",
        c10::Join(", ", geometry.sizes), "], which has been freed since and is now ",
        TensorMetadata(now).to_string(), " in a storage of ", now.storage().nbytes(),
        " bytes. Whatever has freed it has to gather it before backward comes to this region"));
  }
  return now;
}

at::Tensor TapeReplay::load_tensor(Tape::Given& given) const {
  if (given.parameter.defined()) {
    return parameter_now(given);
  }
  const bool may_change = record_.allow_external_mutation;
  if (given.lost && !may_change) {
    fail_mutated(c10::str("a tensor from outside the region, ", *given.lost));
  }
  if (given.input) {
    at::Tensor tensor = given.input->restore();
    const auto change = given.input->in_place_change(tensor);
    if (change && !may_change) {
      fail_mutated(c10::str("a tensor from outside the region, ", *change));
    }
    if (given.kept.is_written_as_part() && given.input->is_original(tensor) && !may_change) {
      fail_mutated(c10::str("a tensor from outside the region, ", describe_loss(given)));
    }
    return tensor;
  }
  const KeptResult& kept = given.kept;
  if (given.why == Why::kPolicy) {
    const std::optional<at::Tensor> tensor = kept.get_unless_mutated();
    if (!tensor) {
      fail_kept_mutated(kept);
    }
    return *tensor;
  }
  const bool is_checked = given.why == Why::kOutside || given.why == Why::kOutOfSight;
  if (is_checked && kept.is_mutated() && !may_change) {
    fail_mutated(c10::str("a tensor from outside the region, ", describe_loss(given)));
  }
  return kept.get();
}

at::Tensor TapeReplay::held_tensor(SlotId slot) const {
  const KeptResult& held = tape_.held.at(slot);
  if (held.is_mutated() && !record_.allow_external_mutation) {
    fail_mutated(TensorMetadata(held.alias).to_string());
  }
  return held.alias;
}

void TapeReplay::fail_mutated(const std::string& what) const {
  throw MutationError(c10::str("[checkpoint] region '", record_.name,
                               "': ", running_ ? describe_operator(*running_) : "a saved tensor",
                               running_ ? " reads " : " is ", what,
                               retention_.note_mutation(tape_)));
}

void TapeReplay::fail_kept_mutated(const KeptResult& kept) const {
  throw MutationError(
      c10::str("[checkpoint] region '", record_.name,
               "': a tensor that the policy keeps has been mutated: ", kept.describe_mutation(),
               ". Change a clone instead, or set allow_cache_entry_mutation to compute it again"));
}

std::string TapeReplay::describe_operator(TapeOperatorId index) const {
  const Tape::Operator& op = tape_.operators[index];
  return c10::str("operator ", op.ordinal, ", ", op.op.operator_name());
}

}  // namespace reprise::engine_internal
