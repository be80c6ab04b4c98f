// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/group_state.h"

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {
namespace {

constexpr std::string_view kGroupKindName = "REPRISE_GRAPH_EXEC_GROUP";

c10::DebugInfoKind group_kind() {
  return hooks_internal::own_debug_info_kind<kGroupKindName, 0xC8>();
}

constinit std::atomic<std::int64_t> groups_made{0};

}  // namespace

class GroupInfo final : public c10::DebugInfoBase {
 public:
  explicit GroupInfo(std::shared_ptr<GroupState> group)
      : group(std::move(group)), outside_(c10::ThreadLocalDebugInfo::current()) {}

  static GroupInfo* innermost() noexcept {
    return static_cast<GroupInfo*>(c10::ThreadLocalDebugInfo::get(group_kind()));
  }

  void push(const std::shared_ptr<GroupInfo>& self) {
    c10::ThreadLocalDebugInfo::_push(group_kind(), self);
    link_ = c10::ThreadLocalDebugInfo::current().get();
  }

  // Removes ended entries from the top of this thread's stack.
  static void pop_ended() noexcept {
    GroupInfo* top = innermost();
    while (top != nullptr && !top->is_open &&
           c10::ThreadLocalDebugInfo::current().get() == top->link_) {
      c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(top->outside_);
      top = innermost();
    }
  }

  const std::shared_ptr<GroupState> group;
  std::atomic<bool> is_open{true};

 private:
  std::shared_ptr<c10::ThreadLocalDebugInfo> outside_;
  c10::ThreadLocalDebugInfo* link_ = nullptr;  // that owns it
};

GroupState::GroupState() : number_(groups_made.fetch_add(1)) {}

std::shared_ptr<GroupState> GroupState::entered() {
  if (groups_made.load(std::memory_order_relaxed) == 0) {
    return nullptr;  // as in most programs, for each saved tensor
  }
  const GroupInfo* const info = GroupInfo::innermost();
  return info == nullptr || !info->is_open ? nullptr : info->group;
}

void GroupState::add(Frames& frames, const std::weak_ptr<Frame>& frame) {
  // Removes dead frames whenever the list would grow, so that its length follows the live ones.
  if (frames.size() == frames.capacity()) {
    std::erase_if(frames, [](const auto& other) { return other.expired(); });
  }
  frames.push_back(frame);
}

void GroupState::add_forward(const std::weak_ptr<Frame>& frame) {
  const MutexLock lock(mutex_);
  add(forwards_, frame);
}

void GroupState::add_session(const std::weak_ptr<Frame>& frame) {
  const MutexLock lock(mutex_);
  add(sessions_, frame);
}

void GroupState::recompute_now() {
  Frames frames;
  {
    const MutexLock lock(mutex_);
    frames = forwards_;
  }
  for (const auto& weak : frames) {
    if (const auto frame = weak.lock()) {
      frame->recompute_now(session());
    }
  }
}

void GroupState::release() {
  Frames frames;
  {
    const MutexLock lock(mutex_);
    frames = std::exchange(sessions_, {});
  }
  for (const auto& weak : frames) {
    if (const auto frame = weak.lock()) {
      frame->end_session(session());
    }
  }
}

GroupScope::GroupScope(std::shared_ptr<GroupState> group) {
  GroupInfo::pop_ended();
  info_ = std::make_shared<GroupInfo>(std::move(group));
  info_->push(info_);
}

GroupScope::~GroupScope() {
  info_->is_open = false;
  GroupInfo::pop_ended();
}

}  // namespace reprise::engine_internal
