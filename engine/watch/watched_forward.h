// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators of a function region's forward, for comparison with its replays: their hashes (see
// provenance.h), and for each the tensors from outside that it read, its host reads of them, and
// the earlier contents of the written ones.
#ifndef REPRISE_ENGINE_WATCH_WATCHED_FORWARD_H_
#define REPRISE_ENGINE_WATCH_WATCHED_FORWARD_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/checks/fingerprint.h"
#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/operators/uncounted_writes.h"
#include "reprise/engine/outside/assigned_data.h"
#include "reprise/engine/outside/written_memory.h"
#include "reprise/engine/watch/input_samples.h"
#include "reprise/engine/watch/inside_memory.h"
#include "reprise/engine/watch/memory_sample.h"
#include "reprise/engine/watch/wrapped_memory.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// References storages weakly, which retains no memory of tensors but prevents the reuse of
// addresses; except for the contents before writes.
class WatchedForward {
 public:
  // region_inputs: each once.
  // copied_bytes: see Note [Outside memory].
  WatchedForward(std::span<const at::Tensor> region_inputs, std::int64_t copied_bytes);

  struct Operator {
    Provenance hash;
    const c10::OperatorName* name;
    std::uint32_t first_read;
    WriteMoment moment;  // when it was about to run
  };
  // A read of a tensor from outside.
  struct Read {
    std::uint32_t outside;  // its number
    std::int64_t version;
    MemorySample sample;   // if it is wrapped, or the region has written to it before
    bool is_of_elements;   // the sample, as sample_elements(); otherwise as sample_wrapped()
    std::uint32_t writes;  // of the region to its memory before
  };
  // The contents of a tensor from outside before a write by an operator whose results depend on
  // them; or statistics that an operator has read.
  struct Before {
    std::uint32_t argument;
    std::uint32_t element;  // of a list
    at::Tensor state;
  };
  // The identity of a tensor from outside.
  struct WeakMemory {
    explicit WeakMemory(const at::Tensor& tensor);
    StorageId id() const {
      return storage._unsafe_get_target() != nullptr
                 ? static_cast<StorageId>(storage._unsafe_get_target())
                 : object._unsafe_get_target();
    }
    bool exists() const { return !storage.expired() || !object.expired(); }

    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    // Null unless it is sparse or nested.
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> object;
  };
  struct Input {
    Input(const at::Tensor& tensor, std::uint32_t number);
    // Returns how much larger the storage offset of a replay's tensor is.
    std::int64_t shift_of(const at::Tensor& replayed) const;

    WeakMemory memory;
    std::uint32_t number;  // in hashes: that of the first input with the same memory
    std::int64_t offset;   // in its storage
  };
  struct Outside {
    explicit Outside(const at::Tensor& tensor);
    // Returns whether another tensor, read first in its place, certainly has other values.
    bool differs_from(const at::Tensor& tensor) const;

    WeakMemory memory;
    // Of its elements, and of its memory, at the first read. 0 for parameters, and on devices.
    MemorySample sample;
    MemorySample contents;
    bool is_of_all_bytes;  // `contents`
    bool is_whole;         // covers its storage
    std::int64_t version;  // at the first read
    bool is_unidentified = false;
    bool may_be_of_region = false;  // see WatchedForward::may_be_of_region()
    bool is_wrapped;
    // Whether it existed when forward ended. Otherwise the region may have made it itself, outside
    // the dispatcher, and makes another one in a replay.
    bool is_alive = false;
  };

  // Forward has ended.
  void complete();
  // Returns the numbers of the memory that forward has met. Until it has ended.
  MemoryTable& memory() { return *memory_; }
  // Returns the origin of a tensor that forward saves now; unknown on other threads.
  SlotProvenance of_slot(const at::Tensor& tensor) const;
  // Returns the origin of memory that the region has made and that still has owners; null for
  // other memory.
  const ProvenanceMap::Entry* left_over(StorageId memory) const;

  std::span<const Read> reads_of(std::uint32_t op) const;
  // Returns the guard for a replay, to live while the code runs; none on another thread than
  // forward's while forward runs.
  std::optional<AssignedData::Guard> guard_assigned() const;
  // Returns the storages that the region has written or made, and that have no bytes now.
  std::vector<MemoryTable::WeakStorage> freed() const;

  std::vector<Operator> operators;
  std::vector<Read> reads;
  std::vector<Outside> outside;
  absl::flat_hash_map<std::uint32_t, std::vector<c10::IValue>> host_reads;
  absl::flat_hash_map<std::uint32_t, std::vector<Before>> befores;
  // The outcome of operators that write to memory that the region has wrapped itself.
  absl::flat_hash_map<std::uint32_t, std::vector<Fingerprint>> wrapped_writes;
  // The versions of tensors from outside that code under a PolicyBypassGuard has read.
  absl::flat_hash_map<StorageId, std::int64_t> hidden_reads;
  WrittenMemory written;
  std::vector<RngState> generators;  // before their first draw
  std::vector<at::Generator> drawn;  // generators that random operators have drawn from
  // Their states after each operator that drew from them. See Note [Shared generators].
  absl::flat_hash_map<std::uint32_t, std::uint64_t> positions;

  bool is_complete = false;
  const WriteMoment first_moment = current_write_moment();

  std::vector<Input> inputs;
  InputSamples input_samples;
  std::unique_ptr<InsideSamples> inside_samples;  // null unless the region writes outside memory

  // A transfer between ranks has run since the last slot was saved, on another thread perhaps.
  std::atomic<bool> has_new_transfer = false;

 private:
  friend class ForwardWatch;

  absl::flat_hash_map<StorageId, ProvenanceMap::LeftOver> left_;  // when forward has ended

  bool is_on_its_thread() const { return std::this_thread::get_id() == thread_; }
  // Returns whether a replay may have another tensor in place of this one: one of both below.
  bool is_unidentified(const at::Tensor& tensor) const;
  // Returns whether a tensor of a class of C++ may have its elements in this one.
  bool may_be_of_wrapper(const at::Tensor& tensor) const;
  // Returns whether the region may have made the tensor itself, outside the dispatcher.
  bool may_be_of_region(const at::Tensor& tensor) const;

  // Forward reads a parameter in memory that the region has made, or received as an input.
  void note_inside(const at::Tensor& parameter);

  const std::thread::id thread_ = std::this_thread::get_id();
  AssignedData assigned_;
  bool has_wrappers_ = false;
  const std::uint64_t first_node_;  // the sequence number of the first node of its graph
  std::optional<MemoryTable> memory_{std::in_place};                 // in forward
  ProvenanceMap made_{*memory_};                                     // likewise
  WrappedWrites writes_;                                             // likewise
  absl::flat_hash_map<StorageId, std::uint32_t> number_of_outside_;  // likewise
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_WATCHED_FORWARD_H_
