// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/graph_exec_group.h"

#include <c10/util/StringUtil.h>

#include <utility>

#include "reprise/engine/errors.h"
#include "reprise/engine/region/group_state.h"

namespace reprise {
using engine_internal::GroupScope;
using engine_internal::GroupState;

namespace {

void check_usable(const GroupState* state, const char* where) {
  if (state == nullptr) {
    throw CheckpointError(c10::str("[", where, "] the group has been moved from"));
  }
}

}  // namespace

GraphExecGroup::GraphExecGroup() : state_(std::make_shared<GroupState>()) {}

GraphExecGroup::~GraphExecGroup() { release(); }

GraphExecGroup::GraphExecGroup(GraphExecGroup&&) noexcept = default;

GraphExecGroup& GraphExecGroup::operator=(GraphExecGroup&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

void GraphExecGroup::recompute_now() {
  check_usable(state_.get(), "GraphExecGroup::recompute_now");
  const GroupScope scope(state_);
  state_->recompute_now();
}

void GraphExecGroup::release() {
  if (state_) {
    state_->release();
  }
}

GraphExecGroupGuard::GraphExecGroupGuard(GraphExecGroup& group) {
  if (is_active()) {
    throw CheckpointError(
        "[GraphExecGroupGuard] GraphExecGroup contexts cannot be nested; leave the entered group "
        "before entering another");
  }
  check_usable(group.state_.get(), "GraphExecGroupGuard");
  scope_ = std::make_unique<GroupScope>(group.state_);
}

GraphExecGroupGuard::~GraphExecGroupGuard() = default;

bool GraphExecGroupGuard::is_active() noexcept { return GroupState::entered() != nullptr; }

}  // namespace reprise
