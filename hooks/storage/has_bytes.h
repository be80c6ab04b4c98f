// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which tensors consist of bytes that a store may hold instead of them.
#ifndef REPRISE_HOOKS_STORAGE_HAS_BYTES_H_
#define REPRISE_HOOKS_STORAGE_HAS_BYTES_H_

#include <ATen/core/Tensor.h>

#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::hooks_internal {

// Returns whether a class in Python decides what the tensor's operators do, as DTensor.
inline bool is_of_python_class(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

// Returns whether the tensor is dense, its elements are in its storage, and another tensor over
// the same bytes is as good. Elements of a class in Python, of functorch and of functionalization
// are elsewhere; zero tensors, tensors of meta, and those whose storage was freed have none.
inline bool has_bytes(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return is_dense(tensor) && !is_of_python_class(tensor) &&
         impl.unsafe_storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks().get() !=
             nullptr;
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_HAS_BYTES_H_
