// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checks/provenance.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <utility>

#include "reprise/engine/checks/provenance_hash.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/python_key.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::engine_internal {

namespace {

// Autocast may have made it, or the tensor that it is a view of, before the region.
bool is_cached_cast(const at::Tensor& tensor) {
  const bool is_narrow = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  if (!is_narrow) {
    return false;
  }
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  const bool has_base = view != nullptr && view->has_bw_view();
  const auto* meta = has_base
                         ? torch::autograd::impl::get_autograd_meta(view->get_backward_view().base_)
                         : torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->grad_fn_ != nullptr &&
         meta->grad_fn_->name() == "ToCopyBackward0";
}

}  // namespace

bool ProvenanceMap::is_followed(const at::Tensor& tensor) {
  return storage_of(tensor) != nullptr && !tensor.is_nested() && tensor.layout() == c10::kStrided &&
         !(kIsPythonAbove && is_of_language(tensor));
}

bool ProvenanceMap::is_object(const at::Tensor& tensor) {
  const bool is_other =
      tensor.is_nested() || tensor.is_sparse() || at::sparse_csr::is_sparse_compressed(tensor);
  return is_other && !is_of_language(tensor);
}

bool ProvenanceMap::is_opaque(Provenance hash) { return hash == kOpaque; }

constinit thread_local base_internal::Spare<ProvenanceMap::Buffers> ProvenanceMap::t_spare_;

void ProvenanceMap::Buffers::clear() {
  entries.clear();
  inputs.clear();
}

ProvenanceMap::ProvenanceMap(MemoryTable& memory) : memory_(&memory), buffers_(t_spare_.take()) {}

ProvenanceMap::~ProvenanceMap() { release(); }

void ProvenanceMap::release() {
  memory_ = nullptr;
  if (buffers_ != nullptr) {
    t_spare_.put(std::move(buffers_));
  }
}

ProvenanceMap::Entry* ProvenanceMap::entry_of(StorageId memory) const {
  if (memory_ == nullptr) {
    return nullptr;
  }
  const MemoryId id = memory_->find(memory);
  const bool is_known = buffers_->entries.contains(id) && buffers_->entries[id].hash != 0;
  return is_known ? &buffers_->entries[id] : nullptr;
}

void ProvenanceMap::add(const at::Tensor& tensor, const Entry& entry) {
  if (storage_of(tensor) != nullptr) {
    entry_for(tensor) = entry;
  } else if (!is_of_language(tensor)) {
    add_object(tensor, entry.origin);
  }
}

void ProvenanceMap::add_memory(MemoryTable::WeakStorage storage, const Entry& entry) {
  buffers_->entries.grow_to(memory_->add(std::move(storage))) = entry;
}

void ProvenanceMap::add_object(const at::Tensor& tensor, std::uint32_t origin) {
  Entry& entry = entry_for(tensor);
  entry.hash = kOpaque;
  entry.origin = origin;
  if (origin != kNone) {
    add_values(tensor, origin);
  }
}

// An alias of a sparse tensor is another object, over the same values.
void ProvenanceMap::add_values(const at::Tensor& tensor, std::uint32_t origin) {
  c10::StorageImpl* const values = values_of_sparse(tensor);
  if (values == nullptr) {
    return;
  }
  if (Entry* const known = entry_of(values)) {
    known->origin = std::min(known->origin, origin);
  } else {
    add_memory(weak_storage_of(*values), {.hash = kOpaque, .origin = origin});
  }
}

absl::flat_hash_map<StorageId, ProvenanceMap::LeftOver> ProvenanceMap::take_alive() {
  absl::flat_hash_map<StorageId, LeftOver> alive;
  for (const MemoryId id : buffers_->entries.ids()) {
    const MemoryTable::Memory& memory = (*memory_)[id];
    if (buffers_->entries[id].hash != 0 && !memory.storage.expired()) {
      alive.emplace(memory.id, LeftOver{buffers_->entries[id], memory.storage});
    }
  }
  release();
  return alive;
}

const ProvenanceMap::Entry* ProvenanceMap::find_alive(
    absl::FunctionRef<bool(const Entry&)> matches) const {
  for (const MemoryId id : buffers_->entries.ids()) {
    const Entry& entry = buffers_->entries[id];
    if (entry.hash != 0 && matches(entry) && !(*memory_)[id].storage.expired()) {
      return &entry;
    }
  }
  return nullptr;
}

void ProvenanceMap::add_input(const at::Tensor& tensor, std::uint32_t input, std::int64_t shift) {
  const Provenance hash = mix_in(kInput, input);
  if (!is_followed(tensor)) {
    if (is_object(tensor)) {
      add_object(tensor);
      entry_for(tensor).hash = hash;  // of its views
      buffers_->inputs.push_back({storage_id_of(tensor), 0, 0, hash, 0});
    }
    return;
  }
  const auto item = static_cast<std::int64_t>(tensor.itemsize());
  std::int64_t end = tensor.storage_offset() + 1;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    end += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  const StorageId memory = storage_id_of(tensor);
  buffers_->inputs.push_back({memory, tensor.storage_offset() * item, end * item, hash, shift});
  const Entry* const known = find(memory);
  const bool is_shared = known != nullptr && (known->hash != hash || known->shift != shift);
  Entry& entry = entry_for(tensor);
  entry.hash = is_shared ? std::uint64_t{kShared} : hash;
  entry.shift = is_shared ? 0 : shift;
  entry.is_input = true;
}

// Returns the hash combined with the geometry.
Provenance ProvenanceMap::of_shared(const at::Tensor& tensor) const {
  const std::int64_t place = tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize());
  for (const Input& input : buffers_->inputs) {
    if (input.memory == storage_id_of(tensor) && place >= input.begin && place < input.end) {
      return with_geometry(input.hash, tensor, input.shift);
    }
  }
  return with_geometry(kShared, tensor, 0);
}

Provenance ProvenanceMap::of_tensor(const at::Tensor& tensor, const Entry* entry) const {
  if (entry != nullptr) {
    return entry->hash == kShared ? of_shared(tensor)
                                  : with_geometry(entry->hash, tensor, entry->shift);
  }
  return is_cached_cast(tensor) ? with_geometry(of_cast(tensor), tensor, 0)
                                : with_geometry(kOutside, tensor, 0);
}

Provenance ProvenanceMap::of(const at::Tensor& tensor, const Entry* entry) const {
  if (is_followed(tensor)) {
    return of_tensor(tensor, entry);
  }
  return is_object(tensor) ? of_object(storage_id_of(tensor)) : 0;
}

ProvenanceMap::Call ProvenanceMap::call_of(const OperatorCall& call) {
  Call described;
  described.has_wrapper = has_unknown_parts_;
  const OperatorTraits& traits = call.traits;
  Provenance hash = mix_in(kOther, reinterpret_cast<std::uintptr_t>(&call.op.operator_name()));
  const auto arguments = call.arguments();
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    const bool is_read = traits.written_arguments.empty() || !traits.may_write(index);
    const Provenance argument = of_argument(arguments[index], is_read, described);
    // Results do not depend on overwritten targets and on statistics.
    hash = is_read || !traits.ignores_targets ? mix_in(hash, argument) : hash;
  }
  if (traits.is_random) {
    hash = mix_in(hash, random_calls_ + 1);
  }
  described.hash = hash;
  return described;
}

Provenance ProvenanceMap::of_argument(const at::Tensor& tensor, bool is_read, Call& call) {
  if (!tensor.defined()) {
    return kUndefined;
  }
  const StorageId memory = storage_id_of(tensor);
  call.arguments.push_back(memory);
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    return of_number(tensor);
  }
  if (!is_followed(tensor)) {
    return of_object(tensor, is_read, call);
  }
  Entry* const entry = entry_of(memory);
  if (entry != nullptr) {
    call.origin = std::min(call.origin, entry->origin);
    call.reads_left_over = call.reads_left_over || entry->is_left_over;
    entry->version = version_of(tensor);
    if (is_leaf_with_gradient(tensor)) {
      call.parameters_inside.push_back(&tensor);
    } else if (entry->is_input && is_read) {
      call.inputs.push_back(&tensor);
    }
  } else {
    call.has_unknown = true;
    call.has_wrapper = call.has_wrapper || is_wrapper_in_cpp(tensor);
    if (is_read && !is_cached_cast(tensor)) {
      call.outside.push_back(&tensor);
    }
  }
  return of_tensor(tensor, entry);
}

// Only inputs are told apart.
Provenance ProvenanceMap::of_object(StorageId memory) const {
  const auto input = std::find_if(buffers_->inputs.begin(), buffers_->inputs.end(),
                                  [&](const Input& each) { return each.memory == memory; });
  return input == buffers_->inputs.end() ? std::uint64_t{kOpaque} : input->hash;
}

Provenance ProvenanceMap::of_object(const at::Tensor& tensor, bool is_read, Call& call) {
  call.has_wrapper = call.has_wrapper || is_wrapper_in_cpp(tensor);
  const StorageId memory = storage_id_of(tensor);
  const Entry* const known = entry_of(memory);
  call.origin = known == nullptr ? call.origin : std::min(call.origin, known->origin);
  if (!is_object(tensor)) {
    return kOpaque;
  }
  if (const c10::StorageImpl* const values = values_of_sparse(tensor)) {
    const Entry* const entry = entry_of(values);
    call.origin = entry == nullptr ? call.origin : std::min(call.origin, entry->origin);
  }
  if (known == nullptr) {
    call.has_unknown = true;
    if (is_read) {
      call.outside.push_back(&tensor);
    }
  }
  return of_object(memory);
}

Provenance ProvenanceMap::of_dictionary(const c10::IValue& value, bool is_read, Call& call) {
  Provenance hash = 8;
  for (const auto& entry : value.toGenericDict()) {
    hash = mix_in(hash, of_argument(entry.key(), is_read, call));
    const c10::IValue element = entry.value();
    if (!element.isTensor()) {
      hash = mix_in(hash, of_argument(element, is_read, call));
      continue;
    }
    if (call.of_dictionaries == nullptr) {
      call.of_dictionaries = std::make_unique<std::list<at::Tensor>>();
    }
    const at::Tensor& tensor = call.of_dictionaries->emplace_back(element.toTensor());
    hash = mix_in(hash, of_argument(tensor, is_read, call));
  }
  return hash;
}

Provenance ProvenanceMap::of_argument(const c10::IValue& value, bool is_read, Call& call) {
  if (value.isTensor()) {
    return of_argument(value.toTensor(), is_read, call);
  }
  if (value.isInt()) {
    return mix_in(1, static_cast<std::uint64_t>(value.toInt()));
  }
  if (value.isDouble()) {
    return mix_in(2, std::bit_cast<std::uint64_t>(value.toDouble()));
  }
  if (value.isBool()) {
    return mix_in(3, value.toBool() ? 1 : 0);
  }
  if (value.isString()) {
    return mix_in(4, std::hash<std::string_view>()(value.toStringView()));
  }
  if (value.isList()) {
    Provenance hash = 5;
    for (const c10::IValue& element : value.toListRef()) {
      hash = mix_in(hash, of_argument(element, is_read, call));
    }
    return hash;
  }
  if (value.isNone()) {
    return 6;
  }
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return mix_in(mix_in(9, std::bit_cast<std::uint64_t>(number.real())),
                  std::bit_cast<std::uint64_t>(number.imag()));
  }
  return value.isGenericDict() ? of_dictionary(value, is_read, call) : 7;
}

}  // namespace reprise::engine_internal
