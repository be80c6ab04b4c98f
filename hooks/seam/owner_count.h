// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The owners of a tensor or of a storage. Where LibTorch's slot for a Python object has
// has_unique_reference(), that object and what it stands for own each other as long as there is
// another owner: the object alone is none.
#ifndef REPRISE_HOOKS_SEAM_OWNER_COUNT_H_
#define REPRISE_HOOKS_SEAM_OWNER_COUNT_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/PyObjectSlot.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>

namespace reprise::hooks_internal {

// Returns whether nothing in Python refers to the object there.
template <class PyObjectSlot>
bool is_dormant(const PyObjectSlot& slot) {
  if constexpr (requires { slot.has_unique_reference(); }) {
    return slot.has_unique_reference();
  } else {
    return false;
  }
}

// Both without such an object. Exact if no other thread takes or drops a reference meanwhile.
inline std::size_t owner_count(c10::StorageImpl& storage) {
  return c10::raw::intrusive_ptr::use_count(&storage) - (is_dormant(*storage.pyobj_slot()) ? 1 : 0);
}
inline std::size_t owner_count(const at::Tensor& tensor) {
  return tensor.use_count() - (is_dormant(*tensor.unsafeGetTensorImpl()->pyobj_slot()) ? 1 : 0);
}

// For a tensor with a storage.
inline std::size_t storage_owner_count(const at::Tensor& tensor) {
  return owner_count(*tensor.storage().unsafeGetStorageImpl());
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_OWNER_COUNT_H_
