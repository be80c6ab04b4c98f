// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The values of a planned tape that are computed again from memory that its owner frees and fills
// again, and is not asked to fill: see refillable_memory.h.
//
// Note [Within reach]: before backward comes to a piece of code, the owner fills the memory for it
// as before forward. So a value is computed again from such memory for uses in this code alone: the
// operators and saved tensors of a unit of fully_shard(). A value that is used elsewhere is made
// once, and retained if backward needs it. What a rank computes again thus waits for no other rank,
// whatever the plan of either.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_REFILLED_READS_H_
#define REPRISE_ENGINE_TAPE_RECORDING_REFILLED_READS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class RefilledReads {
 public:
  // Returns whether there are such values, or will be.
  bool has_any() const { return !of_.empty() || !now_.empty(); }

  void start_operator() { now_.clear(); }
  // The operator that runs reads such memory, or reads or writes to a value.
  void note_memory(const at::Tensor& tensor) { add(refill_of(tensor)); }
  void note_used(TapeValueId value);
  // The operator has made the value.
  void note_made(TapeValueId value);

  // Returns whether all memory that the value is computed from is in use.
  bool is_within_reach(TapeValueId value) const;
  // The value is not computed again.
  void forget(TapeValueId value) { of_.erase(value); }

 private:
  using Memory = absl::InlinedVector<Refill, 2>;
  void add(const Refill& refill);

  Memory now_;  // of the operator that runs
  absl::flat_hash_map<TapeValueId, Memory> of_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_REFILLED_READS_H_
