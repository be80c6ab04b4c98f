// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a tape that slots depend on, found by walking it backwards.
#ifndef REPRISE_ENGINE_TAPE_TAPE_NEEDS_H_
#define REPRISE_ENGINE_TAPE_TAPE_NEEDS_H_

#include "absl/functional/function_ref.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

using IsAvailable = absl::FunctionRef<bool(TapeValueId)>;

// Returns whether no replay ever computes the value.
bool is_always_available(const Tape& tape, TapeValueId value);

// Returns the values that the slots need. Sets `operators` to the operators that have to run for
// them; values for which `is_available` returns true are not computed.
TapeValueSet needed_values(const Tape& tape, const SlotSet& slots, TapeOperatorSet& operators,
                           IsAvailable is_available);

// Adds to `needed` the values that the needed ones depend on, and returns the operators that have
// to run: for those, or because they are required. excused: are not required after all; or null.
TapeOperatorSet needed_operators(const Tape& tape, TapeValueSet& needed, IsAvailable is_available,
                                 const TapeOperatorSet* excused);

// Marks the transfers that each session repeats: all, or all that a slot needs, alive or not.
// See Note [Transfers].
void require_transfers(Tape& tape, bool all, IsAvailable is_available);

// Returns the transfers among those that a session repeats, except those whose outcome is there
// already: see Note [Refilled memory].
TapeOperatorSet transfers_to_repeat(const Tape& tape, IsAvailable is_available);

// Removes the operators that are not needed, and renumbers the rest.
void drop_operators_but(Tape& tape, const TapeOperatorSet& needed);

// Returns, for each value, whether an operator or one of `slots` looks at it through a geometry
// that the available tensor does not cover.
TapeValueSet looked_at_otherwise(const Tape& tape, const SlotSet& slots);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_NEEDS_H_
