// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The origin of a stored storage: whether it is unmodified, and whether it still has an owner, so
// that it need not be fetched.
#ifndef REPRISE_HOOKS_STORAGE_STORAGE_ORIGIN_H_
#define REPRISE_HOOKS_STORAGE_STORAGE_ORIGIN_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// Retains only the address of the storage.
class REPRISE_API StorageOrigin {
 public:
  // bytes: of the whole storage, see storage_bytes().
  explicit StorageOrigin(const at::Tensor& bytes);

  std::int64_t size() const { return size_; }
  std::int64_t version() const { return version_; }
  const void* address() const { return original_._unsafe_get_target(); }

  // Returns false if it has been modified in place.
  bool is_unchanged() const;
  // Returns whether these are the same bytes, and unmodified.
  bool is_of(const at::Tensor& bytes) const;

  // Returns the bytes as a tensor if the storage, or one returned in its place, still has an owner.
  // The result may be the last owner: it must not be released under a lock.
  at::Tensor find_alive() const;
  // `bytes` were fetched.
  void note_given(const at::Tensor& bytes) { given_ = bytes.storage().getWeakStorageImpl(); }

 private:
  using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  at::Tensor alias_of(const WeakStorage& storage) const;

  const std::int64_t size_;
  const c10::DispatchKeySet keys_;
  const WeakStorage original_;
  const std::optional<c10::VariableVersion> counter_;
  const std::int64_t version_;
  WeakStorage given_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_STORAGE_ORIGIN_H_
