// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Threads for stores' work in parallel with the computation.
#ifndef REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_
#define REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_

#include <chrono>
#include <functional>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

inline constexpr std::chrono::seconds kForkPatience{5};

// Runs `task`, which must not throw, on one of two threads of the process, after earlier tasks. A
// forked child has threads of its own; fork() waits up to kForkPatience for the tasks of its
// parent, which would never end in the child.
void run_in_background(std::function<void()> task);

// Waits until no task runs or is queued; returns false if that takes longer.
REPRISE_API bool wait_for_background(std::chrono::milliseconds timeout);

// Returns true on the background's own threads, where waiting for the background may deadlock.
bool must_not_wait();

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_
