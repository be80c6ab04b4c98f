// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/framework_code.h"

#include <utility>

#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/refillable_memory.h"

namespace reprise::engine_internal {

FrameworkCodeGuard::FrameworkCodeGuard() : entry_(begin_bypass(Bypass::kPoliciesAndTapes)) {}
FrameworkCodeGuard::~FrameworkCodeGuard() { end_bypass(*entry_); }

void set_refillable(const std::vector<at::Tensor>& tensors, std::function<void()> refill,
                    std::function<void()> start) {
  add_refillable(tensors, std::make_shared<Refillable>(std::move(refill), std::move(start)));
}

void set_in_use(const at::Tensor& tensor, bool is_in_use) {
  if (const Refill refill = refill_of(tensor)) {
    refill->is_in_use.store(is_in_use, std::memory_order_relaxed);
  }
}

}  // namespace reprise::engine_internal
