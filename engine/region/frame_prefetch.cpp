// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tensors that a frame has in stores, and when they are fetched.
#include <utility>
#include <vector>

#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {

void Frame::follow_previous() {
  thread_local std::weak_ptr<Frame> t_last_frame;
  if (has_stored()) {
    has_stored_ = true;
    previous_ = std::exchange(t_last_frame, weak_from_this());
  }
}

bool Frame::has_stored() const { return record_.input_store || recomputation_->has_stored(); }

void Frame::prefetch_ahead() {
  std::shared_ptr<Frame> next = shared_from_this();
  for (int depth = 0; depth <= record_.prefetch_depth && next; ++depth) {
    next->prefetch();
    next = next->previous_.lock();
  }
}

void Frame::prefetch() {
  const hooks_internal::UnseenScope unseen;
  for (const auto& stored : stored_in_order()) {
    stored->prefetch();
  }
}

std::vector<std::shared_ptr<StoredTensor>> Frame::stored_in_order() {
  std::vector<std::shared_ptr<StoredTensor>> all;
  for (const RegionInput& input : recomputation_->inputs()) {
    all.push_back(input.stored());
  }
  {
    const MutexLock lock(mutex_);
    recomputation_->append_stored(all);
  }
  std::erase(all, nullptr);
  return all;
}

}  // namespace reprise::engine_internal
