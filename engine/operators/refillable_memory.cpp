// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/refillable_memory.h"

#include <atomic>

#include "reprise/engine/operators/storage_table.h"

namespace reprise::engine_internal {

std::atomic<bool> g_has_refillable = false;

namespace {

// Never destroyed: threads may outlive static objects.
StorageTable<Refill>& refills() {
  static auto& table = *new StorageTable<Refill>;
  return table;
}

}  // namespace

void add_refillable(const std::vector<at::Tensor>& tensors, const Refill& refill) {
  for (const at::Tensor& tensor : tensors) {
    refills().set(tensor, [&refill] { return refill; });
  }
  g_has_refillable.store(true, std::memory_order_release);
}

Refill refill_of(const at::Tensor& tensor) {
  return has_refillable() ? refills().find(storage_of(tensor)).value_or(nullptr) : nullptr;
}

}  // namespace reprise::engine_internal
