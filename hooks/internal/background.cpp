// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/background.h"

#include <c10/core/thread_pool.h>

#include <utility>

namespace reprise::hooks_internal {
namespace {

thread_local bool is_not_to_wait = false;

}  // namespace

bool must_not_wait() { return is_not_to_wait; }

NoWaitScope::NoWaitScope() : found_(std::exchange(is_not_to_wait, true)) {}

NoWaitScope::~NoWaitScope() { is_not_to_wait = found_; }

void run_in_background(std::function<void()> task) {
  // Never destroyed: a task may let go of the last store.
  static auto& pool = *new c10::ThreadPool(2);
  pool.run([task = std::move(task)] {
    const NoWaitScope no_wait;
    task();
  });
}

}  // namespace reprise::hooks_internal
