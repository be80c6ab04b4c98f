// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Has the owners of freed memory fill the memory for the operators of a replay, each while those
// before run: parameters of several units in one region are gathered as backward itself gathers
// units, one ahead. See refillable_memory.h.
#ifndef REPRISE_ENGINE_TAPE_REPLAY_GATHER_AHEAD_H_
#define REPRISE_ENGINE_TAPE_REPLAY_GATHER_AHEAD_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "reprise/engine/operators/refillable_memory.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

// Of one run of operators, on its thread.
class GatherAhead {
 public:
  // may_refill: otherwise it does nothing. The arguments must outlive this.
  GatherAhead(const Tape& tape, const std::vector<TapeOperatorId>& operators, bool may_refill);

  // The operator at this position is about to run.
  void before(std::size_t position) {
    if (next_ < gathers_.size() && gathers_[next_].position == position) {
      gather_next();
    }
  }

 private:
  struct Gather {
    std::size_t position;  // of the first operator that reads the memory
    at::Tensor memory;
    Refill refill;
  };
  void gather_next();

  std::vector<Gather> gathers_;
  std::size_t next_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_GATHER_AHEAD_H_
