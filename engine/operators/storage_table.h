// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One value per storage, for as long as the storage has an owner. Thread-safe.
#ifndef REPRISE_ENGINE_OPERATORS_STORAGE_TABLE_H_
#define REPRISE_ENGINE_OPERATORS_STORAGE_TABLE_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

template <class Value>
class StorageTable {
 public:
  // Sets the value of the tensor's storage to `make()`, which is called under the table's lock;
  // does nothing for a tensor without a storage. A replaced value is destroyed after the lock: the
  // value may own a user's object.
  template <class Make>
  void set(const at::Tensor& tensor, Make make) ABSL_LOCKS_EXCLUDED(mutex_) {
    auto storage = weak_storage_of(tensor);
    const c10::StorageImpl* const key = storage._unsafe_get_target();
    if (key == nullptr) {
      return;
    }
    absl::InlinedVector<Value, 1> dropped;
    const MutexLock lock(mutex_);
    const auto [entry, is_new] = entries_.try_emplace(key);
    dropped.push_back(std::exchange(entry->second.value, make()));
    if (is_new) {
      entry->second.storage = std::move(storage);
      forget_freed(dropped);
    }
  }

  std::optional<Value> find(const c10::StorageImpl* storage) const ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(storage);
    return found == entries_.end() ? std::nullopt : std::optional(found->second.value);
  }

 private:
  static constexpr std::size_t kLeast = 256;

  struct Entry {
    Value value{};
    c10::weak_intrusive_ptr<c10::StorageImpl> storage = no_storage();  // prevents reuse
  };

  // Whenever the table has doubled.
  void forget_freed(absl::InlinedVector<Value, 1>& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (entries_.size() < next_cleanup_) {
      return;
    }
    absl::erase_if(entries_, [&dropped](auto& entry) {
      const bool is_freed = entry.second.storage.expired();
      if (is_freed) {
        dropped.push_back(std::move(entry.second.value));
      }
      return is_freed;
    });
    next_cleanup_ = std::max(kLeast, 2 * entries_.size());
  }

  mutable Mutex mutex_;
  absl::flat_hash_map<const c10::StorageImpl*, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::size_t next_cleanup_ ABSL_GUARDED_BY(mutex_) = kLeast;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_STORAGE_TABLE_H_
