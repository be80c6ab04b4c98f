// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Samples of a region's inputs at the first read by an operator. Code writes to memory through
// pointers, as NumPy does, without counting a version. The region's own code may fill an input
// through a pointer before the first read, and fills the input again in a replay.
#ifndef REPRISE_ENGINE_WATCH_INPUT_SAMPLES_H_
#define REPRISE_ENGINE_WATCH_INPUT_SAMPLES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {

// Written on forward's thread, read by replays.
class InputSamples {
 public:
  // The inputs must outlive this, or weak references to their storages.
  explicit InputSamples(std::span<const at::Tensor> inputs);

  // An operator of forward is about to read `tensor`, in the memory of an input.
  void note_read(const at::Tensor& tensor);

  // Returns the number of the sample of this memory, if there is one.
  std::optional<std::uint32_t> find(const at::Tensor& tensor) const;
  // Returns whether `tensor` holds other values than forward read first.
  bool differs(std::uint32_t sample, const at::Tensor& tensor) const;

 private:
  struct Input {
    StorageId memory;
    bool covers_storage;
    bool is_of_all_bytes;  // its sample; otherwise of 64
  };
  // Of an input, or, if it does not cover its storage, of elements of it.
  struct Sample {
    std::uint32_t input;
    std::int64_t offset;
    MemorySample value;
  };
  std::optional<std::uint32_t> find(const Sample& key) const;
  // Returns the sample without its value.
  std::optional<Sample> key_of(const at::Tensor& tensor) const;
  MemorySample value_of(const Sample& sample, const at::Tensor& tensor) const;

  std::vector<Input> inputs_;  // dense CPU tensors, except parameters
  std::vector<Sample> samples_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_INPUT_SAMPLES_H_
