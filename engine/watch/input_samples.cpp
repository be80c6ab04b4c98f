// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/input_samples.h"

#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/watch/wrapped_memory.h"

namespace reprise::engine_internal {

InputSamples::InputSamples(std::span<const at::Tensor> inputs) {
  for (const at::Tensor& input : inputs) {
    if (input.defined() && is_dense_cpu(input) && !is_leaf_with_gradient(input)) {
      inputs_.push_back({.memory = storage_id_of(input),
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

std::optional<std::uint32_t> InputSamples::find(const at::Tensor& tensor) const {
  const std::optional<Sample> key = key_of(tensor);
  return key ? find(*key) : std::nullopt;
}

std::optional<std::uint32_t> InputSamples::find(const Sample& key) const {
  for (std::uint32_t number = 0; number < samples_.size(); ++number) {
    if (samples_[number].input == key.input && samples_[number].offset == key.offset) {
      return number;
    }
  }
  return std::nullopt;
}

bool InputSamples::differs(std::uint32_t sample, const at::Tensor& tensor) const {
  return value_of(samples_[sample], tensor) != samples_[sample].value;
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

}  // namespace reprise::engine_internal
