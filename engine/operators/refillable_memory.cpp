// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/refillable_memory.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "reprise/base/threading/mutex.h"

namespace reprise::engine_internal {

std::atomic<bool> g_has_refillable = false;

namespace {

class Registry {
 public:
  // Never destroyed: threads may outlive static objects.
  static Registry& instance() {
    static auto* const registry = new Registry();
    return *registry;
  }

  void add(const std::vector<at::Tensor>& tensors, const Refill& refill) {
    std::vector<Refill> dropped;  // outlives the lock: a refill is a user's object
    const MutexLock lock(mutex_);
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined() && storage_of(tensor) != nullptr) {
        Entry& entry = entries_.try_emplace(storage_id_of(tensor)).first->second;
        dropped.push_back(std::exchange(entry.refill, refill));
        entry.memory = weak_storage_of(tensor);
      }
    }
    if (entries_.size() > swept_at_) {
      absl::erase_if(entries_, [&dropped](auto& entry) {
        const bool is_gone = entry.second.memory.expired();
        if (is_gone) {
          dropped.push_back(std::move(entry.second.refill));
        }
        return is_gone;
      });
      swept_at_ = std::max(kSmallest, 2 * entries_.size());
    }
    g_has_refillable.store(!entries_.empty(), std::memory_order_release);
  }

  Refill find(const at::Tensor& tensor) {
    if (!has_refillable() || storage_of(tensor) == nullptr) {
      return nullptr;
    }
    const MutexLock lock(mutex_);
    const auto found = entries_.find(storage_id_of(tensor));
    return found == entries_.end() ? nullptr : found->second.refill;
  }

 private:
  static constexpr std::size_t kSmallest = 64;
  struct Entry {
    // Prevents the reuse of its address.
    c10::weak_intrusive_ptr<c10::StorageImpl> memory = no_storage();
    Refill refill;
  };

  Mutex mutex_;
  absl::flat_hash_map<StorageId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::size_t swept_at_ ABSL_GUARDED_BY(mutex_) = kSmallest;
};

}  // namespace

void add_refillable(const std::vector<at::Tensor>& tensors, const Refill& refill) {
  Registry::instance().add(tensors, refill);
}

Refill refill_of(const at::Tensor& tensor) { return Registry::instance().find(tensor); }

}  // namespace reprise::engine_internal
