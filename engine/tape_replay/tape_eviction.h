// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The choice of values to free when memory runs out, among those that a tape can compute again.
//
// Evicts the value with the least time around it (Note [Neighbourhoods]) per byte and distance to
// its next use. Kirisame et al., "Dynamic tensor rematerialization" (ICLR 2021) divide by the time
// since the last use instead, not knowing the next one; here backward is known to go back over the
// operators.
#ifndef REPRISE_ENGINE_TAPE_REPLAY_TAPE_EVICTION_H_
#define REPRISE_ENGINE_TAPE_REPLAY_TAPE_EVICTION_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_replay/rerun_groups.h"

namespace reprise::engine_internal {

class TapeEviction {
 public:
  // position: the operator that backward has come to; in forward, the end. device: that lacks
  // memory.
  TapeEviction(Tape& tape, std::size_t position, c10::Device device);

  // A tensor that holds a value, for the tape or a session.
  void add(TapeValueId value, at::Tensor& tensor);
  // The value stays.
  void pin(TapeValueId value) { holdings_of(value).is_pinned = true; }

  // Takes tensors from their holders until `bytes` are reached or none is left.
  std::vector<at::Tensor> evict(std::int64_t bytes);
  // Takes those of these values that may be evicted.
  std::vector<at::Tensor> evict_all(const std::vector<TapeValueId>& values);

 private:
  struct Holdings {
    absl::InlinedVector<at::Tensor*, 2> tensors;
    bool is_pinned = false;
  };
  Holdings& holdings_of(TapeValueId value);
  // bytes: that are wanted; more are worth nothing.
  double score(TapeValueId value, std::int64_t bytes);
  // Returns whether an operator makes the value, and its tensors have memory on the device.
  bool may_free(TapeValueId value, const Holdings& holdings) const;
  // Returns whether nothing else owns that memory, and the value can be computed again.
  bool may_evict(TapeValueId value);
  bool can_be_computed(TapeValueId value);
  bool may_run_again(const Tape::Operator& op) const;
  void take(TapeValueId value, std::vector<at::Tensor>& taken);

  Tape& tape_;
  const std::size_t position_;
  const c10::Device device_;
  std::vector<std::pair<TapeValueId, Holdings>> holdings_;
  base_internal::IdVector<TapeValueId, std::uint32_t> places_;  // in holdings_, from 1; 0: none
  RerunGroups::Values is_there_;
  std::optional<RerunGroups> groups_;  // once all holdings are known
  base_internal::IdVector<TapeOperatorId, std::uint32_t> visited_in_;
  std::uint32_t visit_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_TAPE_EVICTION_H_
