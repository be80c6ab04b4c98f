// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Threads for stores' work in parallel with the computation.
#ifndef REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_
#define REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_

#include <functional>

namespace reprise::hooks_internal {

// Runs `task`, which must not throw, on one of two threads of the process, after earlier tasks.
void run_in_background(std::function<void()> task);

// Returns true on the background's own threads, where waiting for the background may deadlock.
bool must_not_wait();

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_
