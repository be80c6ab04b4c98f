// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_FUNCTION_CHANGED_STATE_H_
#define REPRISE_ENGINE_FUNCTION_CHANGED_STATE_H_

namespace reprise::engine_internal {

// A part of errors, after what differs: its most frequent cause, and the remedy.
inline constexpr char kChangedState[] =
    "The region's code must run the same operators each time; state that it changes and reads "
    "again, such as a cache that grows, can make it differ. A CheckpointScope, or replay = kTape, "
    "does not run the code again";

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_CHANGED_STATE_H_
