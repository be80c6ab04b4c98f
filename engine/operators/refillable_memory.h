// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory that its owner frees and fills again with the same contents: parameters that FSDP2
// gathers. A tape reads such memory where it is, as an input, and has its owner fill it if it has
// been freed. So a tape copies no gathered weights, and no weights are gathered twice: the owner
// finds them gathered when backward comes to them.
//
// Planned tapes have no owner fill memory: the plan of a rank would decide whether it takes part in
// gathering. Such memory is copied as state is, up to the same limit. An operator that reads larger
// memory is computed again only for backward of the code that the owner has filled the memory for,
// which is when the owner has filled it again: see RefilledReads.
//
// Thread-safety: safe to use on any thread.
#ifndef REPRISE_ENGINE_OPERATORS_REFILLABLE_MEMORY_H_
#define REPRISE_ENGINE_OPERATORS_REFILLABLE_MEMORY_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

struct Refillable {
  using Function = std::function<void()>;
  Refillable(Function fill_memory, Function start_filling)
      : fill(std::move(fill_memory)), start(std::move(start_filling)) {}

  // Called within a replay, on its thread: fill() also ends what start() has begun.
  const Function fill, start;
  // Code runs forward for which the owner has filled the memory, and will again for its backward.
  std::atomic<bool> is_in_use = true;
};
using Refill = std::shared_ptr<Refillable>;

// From now on `refill` fills the memory of the tensors. It is forgotten with the memory.
void add_refillable(const std::vector<at::Tensor>& tensors, const Refill& refill);

// Returns null for other memory. Memory without bytes has the refill that was set before.
Refill refill_of(const at::Tensor& tensor);

// Returns whether there has been any such memory: most programs have none.
inline bool has_refillable() noexcept {
  extern std::atomic<bool> g_has_refillable;
  return g_has_refillable.load(std::memory_order_acquire);
}

inline bool is_refillable(const at::Tensor& tensor) {
  return has_refillable() && refill_of(tensor) != nullptr;
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_REFILLABLE_MEMORY_H_
