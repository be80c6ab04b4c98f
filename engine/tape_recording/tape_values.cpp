// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/tape_values.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/clone.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_traits.h"

namespace reprise::engine_internal {
namespace {

using Why = Tape::Given::Why;

// Returns the parameter that the tensor is or is a view of; undefined for others.
at::Tensor parameter_of(const at::Tensor& tensor) {
  const auto is_parameter = [](const at::Tensor& t) {
    return is_leaf_with_gradient(t) && !is_view(t) && is_dense(t) && !t.is_inference();
  };
  if (is_parameter(tensor)) {
    return tensor;
  }
  const at::Tensor base = is_view(tensor) ? at::Tensor(tensor._base()) : at::Tensor();
  const bool is_of_parameter =
      base.defined() && is_parameter(base) && storage_id_of(base) == storage_id_of(tensor);
  return is_of_parameter ? base : at::Tensor();
}

}  // namespace

at::Tensor TapeValues::copy_of(const at::Tensor& tensor) {
  const at::AutoDispatchBelowADInplaceOrView unseen_by_autograd;
  const InterceptionScope unseen(nullptr);
  return at::clone(tensor);
}

StorageId TapeValues::key_of(const at::Tensor& tensor) {
  return is_dense(tensor) ? storage_id_of(tensor) : tensor.unsafeGetTensorImpl();
}

TapeValueId TapeValues::add(StorageId memory, const at::Tensor& tensor, Tape::Value value,
                            bool is_outside) {
  const TapeValueId id = tape_.values.next_id();
  tape_.values.push_back(value);
  const bool is_storage = is_dense(tensor) && memory == storage_id_of(tensor);
  info_.push_back({.geometry = is_storage ? tables_.geometry_of(tensor) : GeometryId(),
                   .bytes = is_storage ? static_cast<std::int64_t>(tensor.storage().nbytes()) : 0});
  MemoryId number = memory_.find(memory);
  if (number == Tape::kNone) {
    number = is_storage ? memory_.add(tensor) : memory_.add_object(tensor);
  }
  Memory& known = memories_.grow_to(number);
  known = {id, is_outside, /*is_others=*/known.is_others_or_outside()};
  return id;
}

TapeValueId TapeValues::add_input(StorageId memory, const at::Tensor& tensor, Why why) {
  const TapeValueId id = add(memory, tensor, {}, /*is_outside=*/true);
  Tape::Given given;
  given.why = why;
  given.is_parameter = is_leaf_with_gradient(tensor);
  if (options_.follows_parameters && why == Why::kOutside) {
    given.parameter = parameter_of(tensor);
  }
  if (given.parameter.defined()) {
    given.is_parameter = true;
    given.geometry = tables_.geometry_of(given.parameter);
  } else {
    given.kept = KeptResult(tensor);
    given.geometry = info_[id].geometry;
  }
  info_[id].is_given = true;
  tape_.given.emplace(id, std::move(given));
  outside_.push_back(id);
  return id;
}

// Of a tensor that lies otherwise in its storage, reads could not be repeated in the value's.
void TapeValues::add_supplied(const Tape::Tensor& place, const at::Tensor& tensor) {
  const StorageId memory = key_of(tensor);
  if (find(memory) != nullptr || !is_dense(tensor) || place.geometry == Tape::kNone ||
      !tape_.geometries[place.geometry].is_of(tensor) ||
      static_cast<std::int64_t>(tensor.storage().nbytes()) != info_[place.value].bytes) {
    return;
  }
  MemoryId number = memory_.find(memory);
  if (number == Tape::kNone) {
    number = memory_.add(tensor);
  }
  memories_.grow_to(number) = {.current = place.value, .is_supplied = true};
}

TapeValueId TapeValues::add_unset(const at::Tensor& tensor) {
  const TapeValueId id = tape_.values.next_id();
  tape_.values.push_back({});
  Tape::Given given;
  given.why = Why::kUnset;
  given.geometry = tables_.geometry_of(flat(tensor));
  given.device = tensor.device();
  info_.push_back({.is_given = true,
                   .geometry = given.geometry,
                   .bytes = static_cast<std::int64_t>(tensor.storage().nbytes())});
  tape_.given.emplace(id, std::move(given));
  return id;
}

TapeValueId TapeValues::add_assembled(Tape::Operator op) {
  constexpr std::uint8_t kNever = 255;  // its parts may
  const TapeValueId id = tape_.values.next_id();
  tape_.values.push_back({.op = tape_.operators.next_id(), .retained_from = kNever});
  info_.emplace_back().may_keep = false;
  op.first_made = static_cast<std::uint32_t>(tape_.made.size());
  tape_.made.push_back({id, GeometryId(), 0});
  op.end_made = op.first_made + 1;
  op.first_write = op.end_write = static_cast<std::uint32_t>(tape_.writes.size());
  tape_.operators.push_back(op);
  tape_.has_assembled = true;
  return id;
}

void TapeValues::note_refilled(TapeValueId value, const at::Tensor& tensor) {
  tape_.refilled.emplace(value, Tape::Refilled(flat(tensor)));
}

void TapeValues::note_version(TapeValueId value, const at::Tensor& tensor) {
  info_[value].version = version_of(tensor);
  info_[value].counter = counter_id_of(tensor);
  if (tape_.refilled.empty()) {
    return;
  }
  if (const auto found = tape_.refilled.find(value); found != tape_.refilled.end()) {
    found->second.version = info_[value].version;
  }
}

void TapeValues::note_version_of_input(TapeValueId value) {
  Tape::Given* const written = input(value);
  if (written != nullptr && written->kept.alias.defined()) {
    written->kept.version = version_of(written->kept.alias);
    written->kept.moment = current_write_moment();
  }
}

void TapeValues::settle_transfer(TapeValueId value, const at::Tensor& tensor) {
  info_[value].is_in_transfer = is_in_flight(value);
  note_version(value, tensor);
  note_version_of_input(value);
}

bool TapeValues::is_in_flight(TapeValueId value) const {
  const TapeOperatorId op = tape_.values[value].op;
  return tape_.operators.contains(op) && OperatorTraits::of(tape_.operators[op].op).gives_in_flight;
}

void TapeValues::keep(TapeValueId value, const at::Tensor& tensor,
                      std::shared_ptr<ActivationStore> store, bool is_in_flight) {
  KeptResult kept(tensor, std::move(store));
  info_[value].is_given = true;
  const auto [entry, is_new] = tape_.given.try_emplace(value);
  Tape::Given& given = entry->second;
  if (!is_new) {
    given = {};
  }
  given.why = Why::kPolicy;
  given.kept = std::move(kept);
  given.kept.is_in_flight = is_in_flight;
  // Not of what a transfer is still writing, of which no sample was taken when it was made.
  const bool is_final = info_[value].sample != 0 || !options_.samples_results;
  given.kept.sample = is_final ? sample_memory(tensor, /*of_all_bytes=*/false) : 0;
  given.geometry = info_[value].geometry;
  info_[value].keeper = tape_.values[value].op;
  if (options_.has_frontier) {
    frontier_.add(value);
  }
}

void TapeValues::put_away(TapeValueId value) {
  if (info_[value].unfilled_bytes == 0) {
    input(value)->kept.put_away();
  }
}

// The contents that it writes to are not read.
void TapeValues::note_reads(const Tape::Operator& op) {
  const auto is_target = [&](TapeValueId value) {
    const auto writes = tape_.writes_of(op);
    return std::any_of(writes.begin(), writes.end(),
                       [value](const Tape::Write& write) { return write.before == value; });
  };
  tape_.for_each_tensor_argument(op, [&](const Tape::Tensor& argument) {
    Info& info = info_[argument.value];
    info.is_read_again = info.is_read_again || !is_target(argument.value);
  });
}

void TapeValues::note_last(c10::ArrayRef<c10::IValue> results) {
  const TapeOperatorId index = tape_.operators.last_id();
  const bool is_run = !options_.has_frontier || !is_served(index);
  if (is_run) {
    note_reads(tape_.operators[index]);
  }
  if (options_.has_frontier) {
    frontier_.note_last(is_run, results);
  }
}

bool TapeValues::is_served(TapeOperatorId index) const {
  const Tape::Operator& op = tape_.operators[index];
  bool is_served = op.first_made < op.end_made || op.first_write < op.end_write;
  tape_.for_each_outcome(op, [&](TapeValueId value) {
    const Info& info = info_[value];
    is_served = is_served && (info.is_released || (info.is_given && tape_.given.contains(value)));
  });
  return is_served;
}

}  // namespace reprise::engine_internal
