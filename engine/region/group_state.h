// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The state of a GraphExecGroup. The entered group is in thread-local state that LibTorch
// propagates to the threads of a backward.
#ifndef REPRISE_ENGINE_REGION_GROUP_STATE_H_
#define REPRISE_ENGINE_REGION_GROUP_STATE_H_

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/region/session.h"

namespace reprise::engine_internal {

class Frame;

class GroupState {
 public:
  GroupState();

  std::int64_t number() const { return number_; }
  SessionId session() const { return {SessionId::Kind::kGroup, number_}; }

  // Returns the group that the calling thread has entered, or null.
  static std::shared_ptr<GroupState> entered();

  // A region whose forward ran in the group.
  void add_forward(const std::weak_ptr<Frame>& frame);
  // A region that has recomputed tensors for the group.
  void add_session(const std::weak_ptr<Frame>& frame);

  void recompute_now();
  void release();

 private:
  using Frames = std::vector<std::weak_ptr<Frame>>;
  static void add(Frames& frames, const std::weak_ptr<Frame>& frame);

  const std::int64_t number_;
  Mutex mutex_;
  Frames forwards_ ABSL_GUARDED_BY(mutex_);
  Frames sessions_ ABSL_GUARDED_BY(mutex_);
};

class GroupInfo;

// Enters the group on this thread while alive. A scope that ends on another thread, or out of order
// with the guards around it, still ends.
class GroupScope {
 public:
  explicit GroupScope(std::shared_ptr<GroupState> group);
  ~GroupScope();
  GroupScope(const GroupScope&) = delete;
  GroupScope& operator=(const GroupScope&) = delete;

 private:
  std::shared_ptr<GroupInfo> info_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_GROUP_STATE_H_
