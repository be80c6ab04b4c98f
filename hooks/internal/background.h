// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Threads for what stores do beside the computation.
#ifndef REPRISE_HOOKS_INTERNAL_BACKGROUND_H_
#define REPRISE_HOOKS_INTERNAL_BACKGROUND_H_

#include <functional>

namespace reprise::hooks_internal {

// Runs `task`, which must not throw, on one of two threads of the process, after those given
// before.
void run_in_background(std::function<void()> task);

// Whether waiting for the background may be for ever: on its own threads, and in a NoWaitScope.
bool must_not_wait();

// While alive, this thread does not wait for the background.
class NoWaitScope {
 public:
  NoWaitScope();
  ~NoWaitScope();
  NoWaitScope(const NoWaitScope&) = delete;
  NoWaitScope& operator=(const NoWaitScope&) = delete;

 private:
  const bool found_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_INTERNAL_BACKGROUND_H_
