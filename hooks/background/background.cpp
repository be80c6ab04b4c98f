// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/background/background.h"

#include <c10/core/thread_pool.h>

#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::hooks_internal {
namespace {

thread_local bool t_is_background = false;

}  // namespace

bool must_not_wait() { return t_is_background; }

void run_in_background(std::function<void()> task) {
  // Never destroyed: a task may release the last store.
  static auto& pool = *new c10::ThreadPool(2);
  pool.run([task = std::move(task)] {
    t_is_background = true;
    const UnseenScope unseen;
    task();
  });
}

}  // namespace reprise::hooks_internal
