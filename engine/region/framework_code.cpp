// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/framework_code.h"

#include <utility>

#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/refillable_memory.h"

namespace reprise::engine_internal {

FrameworkCodeGuard::FrameworkCodeGuard() : entry_(begin_bypass(Bypass::kPoliciesAndTapes)) {}
FrameworkCodeGuard::~FrameworkCodeGuard() { end_bypass(*entry_); }

void set_refillable(const std::vector<at::Tensor>& tensors, std::function<void()> refill) {
  add_refillable(tensors, std::make_shared<const std::function<void()>>(std::move(refill)));
}

}  // namespace reprise::engine_internal
