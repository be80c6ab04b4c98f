// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Memory filled inside]: code may read memory from outside through a pointer, after the
// region has written it with an operator, and fill memory that the region has made. A replay leaves
// the write out, or makes it in memory of its own (Note [Outside memory]): a pointer then reads
// other values. So a region that writes to outside memory samples its own memory on the CPU, in
// forward and in a replay, when an operator has written it and when one reads it. If these differ,
// code has filled the memory through a pointer. If this is so in forward or in the replay, both
// operators must have found the same.
#ifndef REPRISE_ENGINE_WATCH_INSIDE_MEMORY_H_
#define REPRISE_ENGINE_WATCH_INSIDE_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {

// What operators have written to memory of the region's own.
class InsideWrites {
 public:
  // The operator is about to run.
  void start(const OperatorCall& call);
  // The operator has run, or has been left out, so that its results may be unset. made: knows its
  // results. Those of transfers may arrive later: no memory of theirs is known.
  void note_written(const OperatorCall& call, const ProvenanceMap& made, bool has_run);

  // Returns whether an operator has written the tensor's memory.
  bool knows(const at::Tensor& tensor) const { return samples_.contains(storage_id_of(tensor)); }
  // Returns whether known memory, with that sample, has been filled by others since.
  bool is_filled(const at::Tensor& tensor, MemorySample now) const;

 private:
  absl::flat_hash_map<StorageId, MemorySample> samples_;
  // Of the present operator. Weak: if the operator throws, these stay, and a tensor would own the
  // graph that owns this.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> targets_;
  bool may_arrive_later_ = false;
};

// Written on forward's thread, read by replays.
class InsideSamples {
 public:
  // Operator number `op` of forward is about to run. made: the memory that its operators have made.
  void note_reads(std::uint32_t op, const OperatorCall& call, const ProvenanceMap& made);
  InsideWrites& writes() { return writes_; }
  // Forward has ended.
  void complete() { writes_ = {}; }

 private:
  friend class InsideComparison;

  struct Sample {
    std::uint32_t op;
    bool is_filled;
    MemorySample value;
  };
  std::span<const Sample> of(std::uint32_t op) const;

  std::vector<Sample> samples_;  // ordered by operator
  InsideWrites writes_;
};

// The comparison of a replay's memory with these samples. Most regions write to no outside memory,
// and need none. For use by one thread.
class InsideComparison {
 public:
  // samples: must outlive this.
  explicit InsideComparison(const InsideSamples& samples) : samples_(samples) {}

  // An operator that is operator number `op` of forward is about to run. Returns a tensor that the
  // operator reads, and that code has filled through a pointer with other values than in forward.
  std::optional<at::Tensor> find_change(std::uint32_t op, const OperatorCall& call,
                                        const ProvenanceMap& made) const;
  InsideWrites& writes() { return writes_; }

 private:
  const InsideSamples& samples_;
  InsideWrites writes_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_INSIDE_MEMORY_H_
