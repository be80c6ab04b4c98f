// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/input_samples.h"

#include <algorithm>

#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/watch/wrapped_memory.h"

namespace reprise::engine_internal {

InputSamples::InputSamples(std::span<const at::Tensor> inputs) {
  for (std::uint32_t number = 0; number < inputs.size(); ++number) {
    const at::Tensor& input = inputs[number];
    if (input.defined() && is_dense_cpu(input) && !is_leaf_with_gradient(input)) {
      inputs_.push_back({.number = number,
                         .memory = storage_id_of(input),
                         .covers_storage = covers_storage(input),
                         .is_of_all_bytes = !input.requires_grad()});
    }
  }
}

void InputSamples::note_read(const at::Tensor& tensor) {
  if (std::optional<Sample> sample = key_of(tensor); sample && !find(*sample)) {
    sample->value = value_of(*sample, tensor);
    samples_.push_back(*sample);
  }
}

std::optional<std::uint32_t> InputSamples::find(const Sample& key) const {
  for (std::uint32_t number = 0; number < samples_.size(); ++number) {
    if (samples_[number].input == key.input && samples_[number].offset == key.offset) {
      return number;
    }
  }
  return std::nullopt;
}

std::optional<InputSamples::Sample> InputSamples::key_of(const at::Tensor& tensor) const {
  for (std::uint32_t input = 0; input < inputs_.size(); ++input) {
    if (inputs_[input].memory == storage_id_of(tensor)) {
      return Sample{input, inputs_[input].covers_storage ? 0 : tensor.storage_offset(), 0};
    }
  }
  return std::nullopt;
}

// Others may write to the rest of a storage.
MemorySample InputSamples::value_of(const Sample& sample, const at::Tensor& tensor) const {
  const Input& input = inputs_[sample.input];
  return input.covers_storage ? sample_memory(tensor, input.is_of_all_bytes)
                              : sample_elements(tensor);
}

bool InputSamples::differs_from_earlier(std::uint32_t number, const at::Tensor& tensor,
                                        MemorySample now) const {
  const MutexLock lock(mutex_);
  FromHooks& earlier = from_hooks_.try_emplace(number).first->second;
  if (earlier.memory._unsafe_get_target() == storage_of(tensor)) {
    return now != earlier.value;
  }
  earlier = {weak_storage_of(tensor), now};
  return false;
}

void InputComparison::add_copy(std::uint32_t input, const at::Tensor& copy, std::int64_t shift,
                               bool is_exact) {
  if (is_dense_cpu(copy)) {
    copies_.push_back({input, &copy, shift, is_exact});
  }
}

bool InputComparison::finds_change(const at::Tensor& tensor) {
  const Copy* const copy = copy_with(tensor);
  const auto key = copy != nullptr ? key_in(*copy, tensor) : samples_.key_of(tensor);
  const auto number = key ? samples_.find(*key) : std::nullopt;
  if (!number || !seen_.insert(*number).second) {
    return false;
  }
  const InputSamples::Sample& sample = samples_.samples_[*number];
  const InputSamples::Input& input = samples_.inputs_[sample.input];
  const MemorySample now = copy != nullptr && input.covers_storage
                               ? sample_contiguous(*copy->tensor, input.is_of_all_bytes)
                               : samples_.value_of(sample, tensor);
  return copy != nullptr && !copy->is_exact ? samples_.differs_from_earlier(*number, tensor, now)
                                            : now != sample.value;
}

// A store may return several inputs in one storage.
const InputComparison::Copy* InputComparison::copy_with(const at::Tensor& tensor) const {
  const auto begin_of = [](const at::Tensor& t) {
    return static_cast<std::size_t>(t.storage_offset()) * t.itemsize();
  };
  const auto found = std::find_if(copies_.begin(), copies_.end(), [&](const Copy& copy) {
    const std::size_t begin = begin_of(*copy.tensor);
    return storage_id_of(*copy.tensor) == storage_id_of(tensor) && begin_of(tensor) >= begin &&
           begin_of(tensor) < begin + copy.tensor->nbytes();
  });
  return found == copies_.end() ? nullptr : &*found;
}

std::optional<InputSamples::Sample> InputComparison::key_in(const Copy& copy,
                                                            const at::Tensor& tensor) const {
  for (std::uint32_t input = 0; input < samples_.inputs_.size(); ++input) {
    const InputSamples::Input& original = samples_.inputs_[input];
    if (original.number == copy.input) {
      const std::int64_t offset =
          original.covers_storage ? 0 : tensor.storage_offset() - copy.shift;
      return InputSamples::Sample{input, offset, 0};
    }
  }
  return std::nullopt;
}

}  // namespace reprise::engine_internal
