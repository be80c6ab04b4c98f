// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/background.h"

#include <c10/core/thread_pool.h>

#include <utility>

namespace reprise::hooks_internal {

namespace {

thread_local bool must_not_wait = false;

}  // namespace

bool is_in_background() { return must_not_wait; }

NoWaitScope::NoWaitScope() : found_(std::exchange(must_not_wait, true)) {}

NoWaitScope::~NoWaitScope() { must_not_wait = found_; }

void run_in_background(std::function<void()> task) {
  // Never destroyed: a task may let go of the last store.
  static auto& pool = *new c10::ThreadPool(2);
  pool.run([task = std::move(task)] {
    const NoWaitScope no_wait;
    task();
  });
}

}  // namespace reprise::hooks_internal
