// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/input_group.h"

namespace reprise::engine_internal {
namespace {

constinit thread_local InputGroup::Count* t_count = nullptr;

}  // namespace

InputGroup::Count::Count() noexcept : outer_(t_count) { t_count = this; }

InputGroup::Count::~Count() { t_count = outer_; }

InputGroup::InputGroup() noexcept {
  if (t_count != nullptr) {
    ++t_count->groups_;
    t_count->is_open_ = true;
  }
}

InputGroup::~InputGroup() {
  if (t_count != nullptr) {
    t_count->is_open_ = false;
  }
}

std::uint32_t InputGroup::current() noexcept {
  return t_count != nullptr && t_count->is_open_ ? t_count->groups_ : 0;
}

}  // namespace reprise::engine_internal
