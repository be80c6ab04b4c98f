// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How long the values that a tape replay computes stay.
#ifndef REPRISE_ENGINE_TAPE_REPLAY_LIVENESS_H_
#define REPRISE_ENGINE_TAPE_REPLAY_LIVENESS_H_

#include <vector>

#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_replay/tape_eviction.h"

namespace reprise::engine_internal {

// Asked by a TapeReplay, and lives as long. By this class's answers, a value stays until the last
// operator of the session that depends on it has run, and fills all slots that want it.
class Liveness {
 public:
  // Returns whether a slot's tensor is wanted.
  using Wants = absl::FunctionRef<bool(SlotId slot)>;

  Liveness() = default;
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;
  virtual ~Liveness() = default;

  // The replay starts anew: nothing has been computed.
  virtual void restart() {}
  // These operators are about to run, for these slots.
  virtual void begin_pass(const std::vector<TapeOperatorId>& /*operators*/,
                          const std::vector<SlotId>& /*slots*/, Wants /*wants*/) {}
  // Returns whether all operators for one slot run in front of those for the next.
  virtual bool computes_slots_in_turn() const { return false; }

  // The operator is about to run: its inputs have to be there afterwards.
  virtual void before_run(const Tape::Operator& /*op*/, Wants /*wants*/) {}
  // It has run, and has made or written the value.
  virtual void note_made(TapeValueId /*value*/) {}
  virtual void after_run(const Tape::Operator& /*op*/) {}
  // Returns whether the operator will run once more in this session, for uses that are still to
  // come.
  virtual bool runs_again(TapeOperatorId /*op*/) const { return false; }

  // Returns whether the value, if it is there, stays for later passes.
  virtual bool stays(TapeValueId /*value*/) const { return true; }
  // Returns whether a slot that was asked for in this pass is still to get the value.
  virtual bool is_awaited(TapeValueId /*value*/) const { return false; }
  // Fills the slots with a value that does not stay.
  virtual void fill_asked_slots(TapeValueId /*value*/, Wants /*wants*/) {}

  // Returns whether a cheap operator may run later than the tape has it, see Note [Deferred
  // recomputation]; whether the owners of memory may fill it again, see refillable_memory.h.
  virtual bool may_defer() const { return true; }
  virtual bool may_refill() const { return true; }

  // Adds the values that the session holds and that may be evicted.
  virtual void add_holdings(TapeEviction& /*eviction*/) {}
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_LIVENESS_H_
