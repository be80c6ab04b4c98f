// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/input_group.h"

#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

constinit thread_local std::uint32_t InputGroup::t_current_ = 0;

InputGroup::InputGroup() : outer_(t_current_) {
  Count* count = nullptr;
  hooks_internal::find_open_provider([&count](hooks_internal::HookProvider& provider) {
    count = dynamic_cast<Count*>(&provider);
    return count != nullptr;
  });
  t_current_ = count == nullptr ? kUncounted : count->groups_.fetch_add(1) + 1;
}

InputGroup::~InputGroup() { t_current_ = outer_; }

}  // namespace reprise::engine_internal
