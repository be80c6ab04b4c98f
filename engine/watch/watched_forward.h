// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a function region's forward ran, for its replays to be compared with: the operators by their
// hashes (see provenance.h), and with each the tensors from outside that it read, what it told the
// host of them, and what it found in those that it wrote to.
#ifndef REPRISE_ENGINE_WATCH_WATCHED_FORWARD_H_
#define REPRISE_ENGINE_WATCH_WATCHED_FORWARD_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/operator_name.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/checks/fingerprint.h"
#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/watch/memory_sample.h"
#include "reprise/engine/watch/wrapped_memory.h"
#include "reprise/rng/rng_state.h"

namespace reprise::engine_internal {

// Holds storages weakly, which keeps no memory of tensors, and an address from being used again;
// but for the states before writes.
class WatchedForward {
 public:
  // inputs: the region's, each once.
  explicit WatchedForward(std::span<const at::Tensor> inputs);

  struct Operator {
    Provenance hash;
    const c10::OperatorName* name;
    std::uint32_t first_read;
  };
  // Of a tensor from outside.
  struct Read {
    std::uint32_t outside;  // its number
    std::int64_t version;
    MemorySample sample;  // if it is wrapped
  };
  // A tensor from outside as it was before an operator wrote to it whose results depend on that; or
  // statistics that one has read.
  struct Before {
    std::uint32_t argument;
    std::uint32_t element;  // of a list
    at::Tensor state;
  };
  struct Outside {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    bool is_unidentified;  // lent, or made on another thread
    bool is_wrapped;
    // When forward has ended. Otherwise the region may have made it itself, out of sight, and
    // makes another one in a replay.
    bool is_alive;
  };

  // Forward has ended.
  void complete();
  // Of a tensor that forward saves now; nothing is known of it on other threads.
  SlotProvenance of_slot(const at::Tensor& tensor) const;

  std::span<const Read> reads_of(std::uint32_t op) const;

  std::vector<Operator> operators;
  std::vector<Read> reads;
  std::vector<Outside> outside;
  absl::flat_hash_map<std::uint32_t, std::vector<c10::IValue>> told;
  absl::flat_hash_map<std::uint32_t, std::vector<Before>> befores;
  absl::flat_hash_map<StorageId, ProvenanceMap::Entry>
      left;  // what the region has made and somebody still holds
  // Of the operators that write to memory that the region has wrapped itself: as they left it.
  absl::flat_hash_map<std::uint32_t, std::vector<Fingerprint>> wrapped_writes;
  // The versions of tensors from outside that code under a PolicyBypassGuard has read.
  absl::flat_hash_map<StorageId, std::int64_t> hidden_reads;
  std::vector<RngState> generators;  // named by operators, as they stood before the first draw
  std::vector<at::Generator> drawn;  // those that random operators have drawn from
  // Where these stood after each operator that drew from them. See Note [Shared generators].
  absl::flat_hash_map<std::uint32_t, std::uint64_t> positions;

  bool is_complete = false;

  // The number of each input in hashes: of the first that shares its memory.
  std::vector<std::uint32_t> input_numbers;
  std::vector<std::int64_t> input_offsets;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> input_storages;

  // A transfer between ranks has run since the last slot was saved, on another thread perhaps.
  std::atomic<bool> has_new_transfer = false;

 private:
  friend class ForwardWatch;

  bool is_on_its_thread() const { return std::this_thread::get_id() == thread_; }

  const std::thread::id thread_ = std::this_thread::get_id();
  ProvenanceMap made_;                                               // in forward
  WrappedWrites writes_;                                             // likewise
  absl::flat_hash_map<StorageId, std::uint32_t> number_of_outside_;  // likewise
};

// Writes it, while forward runs.
class ForwardWatch final : public OperatorInterceptor {
 public:
  // outer: the interceptor around the region, asked after this one; or null.
  ForwardWatch(WatchedForward& forward, OperatorInterceptor* outer)
      : forward_(forward), outer_(outer) {}

  void intercept(const OperatorCall& call) override;
  void settle() override;
  void note_recomputed(const at::Tensor& tensor, StorageId saved, Provenance provenance) override;
  at::Tensor state_before(const OperatorCall& call, std::uint32_t argument, std::uint32_t element,
                          const at::Tensor& target) override;

 private:
  void intercept_hidden(const OperatorCall& call);
  void note_reads(const ProvenanceMap::Call& described);
  void note_befores(const OperatorCall& call);
  void note_statistics(const OperatorCall& call);
  void note_generator(const at::Generator& generator);
  bool is_outside(const at::Tensor& tensor) const;

  WatchedForward& forward_;
  OperatorInterceptor* const outer_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_WATCHED_FORWARD_H_
