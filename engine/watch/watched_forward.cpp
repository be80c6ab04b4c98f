// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/watched_forward.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/operators/autograd_facts.h"

namespace reprise::engine_internal {

namespace {

MemorySample sample_values(const at::Tensor& tensor) {
  if (is_leaf_with_gradient(tensor) || !tensor.is_cpu()) {
    return 0;
  }
  if (ProvenanceMap::is_object(tensor)) {
    return sample_object(tensor);
  }
  return is_dense_cpu(tensor) ? sample_elements(tensor) : 0;
}

std::int64_t offset_of(const at::Tensor& input) {
  return input.defined() && ProvenanceMap::is_followed(input) ? input.storage_offset() : 0;
}

}  // namespace

WatchedForward::Input::Input(const at::Tensor& tensor, std::uint32_t number)
    : memory(tensor), number(number), offset(offset_of(tensor)) {}

std::int64_t WatchedForward::Input::shift_of(const at::Tensor& replayed) const {
  return offset_of(replayed) - offset;
}

WatchedForward::WatchedForward(std::span<const at::Tensor> region_inputs, std::int64_t copied_bytes)
    : written(copied_bytes),
      input_samples(region_inputs),
      first_node_(at::sequence_number::peek()) {
  for (std::uint32_t i = 0; i < region_inputs.size(); ++i) {
    const at::Tensor& input = region_inputs[i];
    Input& added = inputs.emplace_back(input, i);
    if (!input.defined()) {
      continue;
    }
    const StorageId memory = added.memory.id();
    const auto first = std::find_if(inputs.begin(), inputs.end(), [&](const Input& each) {
      return memory != nullptr && each.memory.id() == memory;
    });
    added.number = first == inputs.end() ? i : first->number;
    has_wrappers_ = has_wrappers_ || is_wrapper_in_cpp(input);
    made_.add_input(input, added.number, 0);
  }
}

WatchedForward::WeakMemory::WeakMemory(const at::Tensor& tensor)
    : storage(weak_storage_of(tensor)),
      object(tensor.defined() && ProvenanceMap::is_object(tensor)
                 ? tensor.getIntrusivePtr()
                 : c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()) {}

WatchedForward::Outside::Outside(const at::Tensor& tensor)
    : memory(tensor),
      sample(sample_values(tensor)),
      contents(is_leaf_with_gradient(tensor) || !is_dense_cpu(tensor)
                   ? 0
                   : sample_memory(tensor, !tensor.requires_grad())),
      is_of_all_bytes(!tensor.requires_grad()),
      is_whole(covers_storage(tensor)),
      version(version_of(tensor)),
      is_wrapped(engine_internal::is_wrapped(tensor)) {}

bool WatchedForward::Outside::differs_from(const at::Tensor& tensor) const {
  const bool is_of_all = is_of_all_bytes && contents != 0;
  if (is_of_all && is_whole && is_dense_cpu(tensor) && covers_storage(tensor)) {
    return sample_memory(tensor, /*of_all_bytes=*/true) != contents;
  }
  const MemorySample other = sample == 0 ? 0 : sample_values(tensor);
  return other != 0 && other != sample;
}

bool WatchedForward::is_unidentified(const at::Tensor& tensor) const {
  return may_be_of_wrapper(tensor) || may_be_of_region(tensor);
}

bool WatchedForward::may_be_of_wrapper(const at::Tensor& tensor) const {
  return has_wrappers_ && !is_leaf_with_gradient(tensor);
}

bool WatchedForward::may_be_of_region(const at::Tensor& tensor) const {
  if (tensor.has_storage() && is_non_owning(tensor)) {
    return true;
  }
  const torch::autograd::Node* const node = node_of(tensor);
  if (node == nullptr) {
    return is_wrapper(tensor) && !tensor.requires_grad();  // its constructor is no operator
  }
  const bool is_from_other_thread = node->thread_id() != at::RecordFunction::currentThreadId();
  // A write to a tensor from outside gives it a new node, too.
  const bool is_made_by_region =
      node->sequence_nr() >= first_node_ && !written.contains(storage_id_of(tensor));
  return is_from_other_thread || is_made_by_region;
}

SlotProvenance WatchedForward::of_slot(const at::Tensor& tensor) const {
  if (!is_on_its_thread()) {
    return {};
  }
  const auto* const entry = made_.find(storage_id_of(tensor));
  const Provenance known = made_.of(tensor, entry);
  const Provenance hash = ProvenanceMap::is_opaque(known) ? 0 : known;
  if (entry == nullptr) {
    const bool is_captured = ProvenanceMap::is_followed(tensor) && !is_unidentified(tensor);
    return {.hash = hash, .is_captured = is_captured};
  }
  return {.hash = hash, .of_memory = entry->hash, .is_unset = entry->is_unset};
}

const ProvenanceMap::Entry* WatchedForward::left_over(StorageId memory) const {
  if (!is_complete) {
    return is_on_its_thread() ? made_.find(memory) : nullptr;
  }
  const auto found = left_.find(memory);
  return found == left_.end() ? nullptr : &found->second.entry;
}

std::span<const WatchedForward::Read> WatchedForward::reads_of(std::uint32_t op) const {
  const std::size_t first = operators[op].first_read;
  const std::size_t end = op + 1 < operators.size() ? operators[op + 1].first_read : reads.size();
  return std::span(reads).subspan(first, end - first);
}

std::vector<MemoryTable::WeakStorage> WatchedForward::freed() const {
  std::vector<MemoryTable::WeakStorage> freed;
  written.append_freed(freed);
  for (const auto& [memory, left] : left_) {
    const auto storage = left.storage.lock();
    if (storage && storage->nbytes() == 0) {
      freed.push_back(left.storage);
    }
  }
  return freed;
}

void WatchedForward::note_inside(const at::Tensor& parameter) {
  const StorageId memory = storage_id_of(parameter);
  if (std::none_of(inputs.begin(), inputs.end(),
                   [&](const Input& input) { return input.memory.id() == memory; })) {
    assigned_.note(parameter);
  }
}

std::optional<AssignedData::Guard> WatchedForward::guard_assigned() const {
  return is_complete || is_on_its_thread() ? std::make_optional<AssignedData::Guard>(assigned_)
                                           : std::nullopt;
}

void WatchedForward::complete() {
  is_complete = true;
  for (Outside& each : outside) {
    each.is_alive = !each.is_unidentified && each.memory.exists();
  }
  left_ = made_.take_alive();
  memory_.reset();
  for (const Input& input : inputs) {
    left_.erase(input.memory.id());
  }
  assigned_.complete();
  number_of_outside_ = {};
  if (inside_samples != nullptr) {
    inside_samples->complete();
  }
  std::erase_if(generators, [](const RngState& state) {
    constexpr std::size_t kOurs = 2;                                  // here and in `drawn`
    return state.generator().getIntrusivePtr().use_count() == kOurs;  // the region's own
  });
  operators.shrink_to_fit();
  reads.shrink_to_fit();
}

}  // namespace reprise::engine_internal
