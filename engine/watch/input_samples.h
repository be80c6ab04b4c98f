// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Samples of a region's inputs at the first read by an operator. Code writes to memory through
// pointers, as NumPy does, without counting a version. The region's own code may fill an input
// through a pointer before the first read, and fills the input again in a replay.
//
// Note [Late reads]: a store with a thread of its own may read an input after the region has, and
// then find what has been written through a pointer meanwhile. So a replay compares copies from
// stores that return the bytes that they have read, as it compares the inputs' own memory. Hooks
// may return other bytes. But if they return the same memory again, a replay finds what an earlier
// one has written there through a pointer: it compares with the first read of that memory.
#ifndef REPRISE_ENGINE_WATCH_INPUT_SAMPLES_H_
#define REPRISE_ENGINE_WATCH_INPUT_SAMPLES_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {

// Written on forward's thread, read by replays, which may run on several threads.
class InputSamples {
 public:
  // The inputs must outlive this, or weak references to their storages.
  explicit InputSamples(std::span<const at::Tensor> inputs);

  // An operator of forward is about to read `tensor`, in the memory of an input.
  void note_read(const at::Tensor& tensor);

 private:
  friend class InputComparison;

  struct Input {
    std::uint32_t number;  // among the region's inputs
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
  // Returns its number, if there is such a sample.
  std::optional<std::uint32_t> find(const Sample& key) const;
  // Returns the sample without its value, of an input's own memory.
  std::optional<Sample> key_of(const at::Tensor& tensor) const;
  MemorySample value_of(const Sample& sample, const at::Tensor& tensor) const;
  // A replay is about to read for the first time what has this number, in a tensor from hooks with
  // that sample. Returns whether an earlier replay found another sample in the same memory.
  bool differs_from_earlier(std::uint32_t number, const at::Tensor& tensor, MemorySample now) const;

  std::vector<Input> inputs_;  // dense CPU tensors, except parameters
  std::vector<Sample> samples_;

  struct FromHooks {
    // Weak, so that other memory is not mistaken for it by its address.
    c10::weak_intrusive_ptr<c10::StorageImpl> memory = no_storage();
    MemorySample value = 0;
  };
  mutable Mutex mutex_;
  // By the number of the sample.
  mutable absl::flat_hash_map<std::uint32_t, FromHooks> from_hooks_ ABSL_GUARDED_BY(mutex_);
};

// The comparison of a replay's inputs with these samples. For use by one thread.
class InputComparison {
 public:
  // samples: must outlive this.
  explicit InputComparison(const InputSamples& samples) : samples_(samples) {}

  // `copy` is the region's input with this number as hooks or a store have returned it, and must
  // outlive this. shift: how much larger its storage offset is than that of forward's tensor.
  // is_exact: it has the bytes that a store has read. See Note [Late reads].
  void add_copy(std::uint32_t input, const at::Tensor& copy, std::int64_t shift, bool is_exact);

  // An operator is about to read `tensor`, in the memory of an input or of such a copy. Returns
  // whether this is the first read, and finds other values than forward's first read, or, from
  // hooks, than that of an earlier replay.
  bool finds_change(const at::Tensor& tensor);

 private:
  struct Copy {
    std::uint32_t input;
    const at::Tensor* tensor;
    std::int64_t shift;
    bool is_exact;
  };
  const Copy* copy_with(const at::Tensor& tensor) const;
  std::optional<InputSamples::Sample> key_in(const Copy& copy, const at::Tensor& tensor) const;

  const InputSamples& samples_;
  std::vector<Copy> copies_;
  absl::flat_hash_set<std::uint32_t> seen_;  // samples
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_INPUT_SAMPLES_H_
