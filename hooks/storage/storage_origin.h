// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A storage that a store has been given: whether it is as it was, and whether somebody still has
// it, so that it need not be brought back.
#ifndef REPRISE_HOOKS_STORAGE_STORAGE_ORIGIN_H_
#define REPRISE_HOOKS_STORAGE_STORAGE_ORIGIN_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

namespace reprise::hooks_internal {

// Holds nothing of the storage but its address.
class StorageOrigin {
 public:
  // bytes: of the whole storage, see storage_bytes().
  explicit StorageOrigin(const at::Tensor& bytes);

  std::size_t size() const { return size_; }
  std::int64_t version() const { return version_; }
  const void* address() const { return original_._unsafe_get_target(); }

  // False if it has been changed in place.
  bool is_unchanged() const;
  // Whether these are the same bytes, and are unchanged.
  bool is_of(const at::Tensor& bytes) const;

  // The bytes as a tensor, if somebody still holds the storage, or one that was given in its place.
  // The result may be the last to hold it: not to be let go of under a lock.
  at::Tensor find_alive() const;
  // `bytes` were brought back.
  void note_given(const at::Tensor& bytes) { given_ = bytes.storage().getWeakStorageImpl(); }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  at::Tensor alias_of(const WeakStorage& storage) const;

  const std::size_t size_;
  const c10::DispatchKeySet keys_;
  const WeakStorage original_;
  const std::optional<c10::VariableVersion> counter_;
  const std::int64_t version_;
  WeakStorage given_;
};

// The entries of a store by their storages. `Entry` has an origin().
template <class Entry>
class EntriesByStorage {
 public:
  // The last one of this storage, maybe of other bytes; null for none.
  std::shared_ptr<Entry> find(const at::Tensor& bytes) const {
    const auto found = entries_.find(bytes.storage().unsafeGetStorageImpl());
    return found == entries_.end() ? nullptr : found->second.lock();
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

#endif  // REPRISE_HOOKS_STORAGE_STORAGE_ORIGIN_H_
