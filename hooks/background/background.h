// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Threads for what stores do beside the computation.
#ifndef REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_
#define REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_

#include <functional>

namespace reprise::hooks_internal {

// Runs `task`, which must not throw, on one of two threads of the process, after those given
// before.
void run_in_background(std::function<void()> task);

// True on the background's own threads: waiting there for the background may be for ever.
bool must_not_wait();

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BACKGROUND_BACKGROUND_H_
