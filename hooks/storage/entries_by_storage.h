// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The entries of a store by their storages: two tensors in one storage are stored once.
#ifndef REPRISE_HOOKS_STORAGE_ENTRIES_BY_STORAGE_H_
#define REPRISE_HOOKS_STORAGE_ENTRIES_BY_STORAGE_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_map>

#include "reprise/hooks/storage/storage_origin.h"

namespace reprise::hooks_internal {

// `Entry` has an origin().
template <class Entry>
class EntriesByStorage {
 public:
  // Sets `last` to the last entry of this storage, or null, and returns whether the storage has had
  // these bytes since: then they are stored already. The entry must not be released under a lock.
  bool find(const at::Tensor& bytes, std::shared_ptr<Entry>& last) const {
    const auto found = entries_.find(bytes.storage().unsafeGetStorageImpl());
    last = found == entries_.end() ? nullptr : found->second.lock();
    return last != nullptr && last->origin().is_of(bytes);
  }
  void add(const std::shared_ptr<Entry>& entry) { entries_[entry->origin().address()] = entry; }
  // To be called when an entry is destroyed; a newer one of the same storage stays.
  void remove(const StorageOrigin& origin) {
    const auto found = entries_.find(origin.address());
    if (found != entries_.end() && found->second.expired()) {
      entries_.erase(found);
    }
  }

 private:
  std::unordered_map<const void*, std::weak_ptr<Entry>> entries_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_ENTRIES_BY_STORAGE_H_
