// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/watch/input_samples.h"

#include <algorithm>

#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/watch/wrapped_memory.h"

namespace reprise::engine_internal {

InputSamples::InputSamples(std::span<const at::Tensor> inputs) {
  for (const at::Tensor& input : inputs) {
    if (input.defined() && is_dense_cpu(input) && !ProvenanceMap::is_parameter(input)) {
      inputs_.push_back({.memory = storage_id_of(input),
                         .covers_storage = covers_storage(input),
                         .is_of_all_bytes = !input.requires_grad()});
    }
  }
}

void InputSamples::note_read(const at::Tensor& tensor) {
  if (find(tensor)) {
    return;
  }
  if (std::optional<Sample> sample = key_of(tensor)) {
    sample->value = value_of(*sample, tensor);
    samples_.push_back(*sample);
  }
}

std::optional<std::uint32_t> InputSamples::find(const at::Tensor& tensor) const {
  const std::optional<Sample> key = key_of(tensor);
  if (!key) {
    return std::nullopt;
  }
  const auto found = std::find_if(samples_.begin(), samples_.end(), [&](const Sample& sample) {
    return sample.input == key->input && sample.offset == key->offset;
  });
  return found == samples_.end()
             ? std::nullopt
             : std::optional(static_cast<std::uint32_t>(found - samples_.begin()));
}

bool InputSamples::differs(std::uint32_t sample, const at::Tensor& tensor) const {
  return value_of(samples_[sample], tensor) != samples_[sample].value;
}

std::optional<InputSamples::Sample> InputSamples::key_of(const at::Tensor& tensor) const {
  const auto found = std::find_if(
      inputs_.begin(), inputs_.end(),
      [memory = storage_id_of(tensor)](const Input& input) { return input.memory == memory; });
  if (found == inputs_.end()) {
    return std::nullopt;
  }
  return Sample{.input = static_cast<std::uint32_t>(found - inputs_.begin()),
                .offset = found->covers_storage ? 0 : tensor.storage_offset(),
                .value = 0};
}

// Others may write to the rest of a storage.
MemorySample InputSamples::value_of(const Sample& sample, const at::Tensor& tensor) const {
  const Input& input = inputs_[sample.input];
  return input.covers_storage ? sample_memory(tensor, input.is_of_all_bytes)
                              : sample_elements(tensor);
}

}  // namespace reprise::engine_internal
