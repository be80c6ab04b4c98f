// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a function replay does with each operator of its region.
//
// Note [Actions]: an operator runs if a replay needs a value that it makes or writes in place and
// that is not saved, or if it has to run whatever becomes of its results. No other operator runs.
// In place of its results the code receives saved values, and stand-ins for values that are not
// needed. A skipped write needs no value of its own if the code has received its outcome already: a
// saved value is supplied as the result of the operator that made its memory, if only skipped
// writes lie between. Otherwise the saved outcome is copied into the memory at the write.
#ifndef REPRISE_ENGINE_TAPE_REPLAY_ACTIONS_H_
#define REPRISE_ENGINE_TAPE_REPLAY_ACTIONS_H_

#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape/tape_needs.h"

namespace reprise::engine_internal {

struct ReplayActions {
  TapeOperatorSet runs;
  // For each value that an operator makes: the saved value of the same memory that the code
  // receives in its place. None: what the operator makes, if it runs, and otherwise a stand-in.
  base_internal::IdVector<TapeValueId, TapeValueId> supplied;
  // Of outcomes of writes that do not run: whether it is copied into the memory then, or the memory
  // stays without it.
  TapeValueSet is_copied;
  TapeValueSet is_left_out;
  TapeValueSet is_written;  // of supplied values: the replay writes to their memory afterwards
};

// Returns the operators that do not have to run for their effects: replays are supplied with all
// that they make and write, as it is or as a later write has left it.
TapeOperatorSet supplied_operators(const Tape& tape, IsAvailable is_supplied);

// needed, runs: as found by needed_operators(). is_saved: whether a value need not be computed.
ReplayActions find_actions(const Tape& tape, const TapeValueSet& needed, TapeOperatorSet runs,
                           IsAvailable is_saved);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_ACTIONS_H_
