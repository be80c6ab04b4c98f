// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Code of a framework that runs within regions and is no part of them: it gathers sharded
// parameters. For a binding to another language to mark.
//
// Thread-safety: a guard affects the calling thread; set_refillable() is safe to call on any.
#ifndef REPRISE_ENGINE_REGION_FRAMEWORK_CODE_H_
#define REPRISE_ENGINE_REGION_FRAMEWORK_CODE_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {
class ThreadStackEntry;
}  // namespace reprise::hooks_internal

namespace reprise::engine_internal {

// While alive, policies are not asked for operators of this thread, and tapes do not record them:
// their results count as made outside of the region.
class [[nodiscard]] REPRISE_API FrameworkCodeGuard {
 public:
  [[nodiscard]] FrameworkCodeGuard();
  ~FrameworkCodeGuard();
  FrameworkCodeGuard(const FrameworkCodeGuard&) = delete;
  FrameworkCodeGuard& operator=(const FrameworkCodeGuard&) = delete;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

// From now on `refill` fills the memory of the tensors with the same contents again, if it has been
// freed: see engine/operators/refillable_memory.h. Replays of tapes call it on their threads, and
// `start` before that: it may begin what `refill` will end. Both are destroyed with the memory, or
// later. The memory is in use.
REPRISE_API void set_refillable(
    const std::vector<at::Tensor>& tensors, std::function<void()> refill,
    std::function<void()> start = [] {});

// Whether code runs forward for which the memory of the tensor, one of these, has been filled, and
// will be filled again before backward comes to that code.
REPRISE_API void set_in_use(const at::Tensor& tensor, bool is_in_use);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_FRAMEWORK_CODE_H_
