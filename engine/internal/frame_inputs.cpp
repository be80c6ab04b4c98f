// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A frame's inputs in a store, and when they start to come back.
#include <utility>

#include "reprise/engine/internal/frame.h"

namespace reprise::engine_internal {

void Frame::follow_previous() {
  thread_local std::weak_ptr<Frame> last_of_thread;
  if (record_.input_store) {
    previous_ = std::exchange(last_of_thread, weak_from_this());
  }
}

void Frame::prefetch_inputs_ahead() {
  std::shared_ptr<Frame> next = shared_from_this();
  for (int depth = 0; depth <= record_.prefetch_depth && next; ++depth) {
    next->prefetch_inputs();
    next = next->previous_.lock();
  }
}

void Frame::prefetch_inputs() {
  for (const RegionInput& input : record_.inputs) {
    input.prefetch();
  }
  if (record_.tape) {
    const MutexLock lock(mutex_);
    for (const auto& [value, given] : record_.tape->given) {
      if (given.input) {
        given.input->prefetch();
      }
    }
  }
}

}  // namespace reprise::engine_internal
