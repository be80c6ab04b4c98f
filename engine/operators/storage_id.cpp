// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/storage_id.h"

#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>

namespace reprise::engine_internal {

c10::StorageImpl* values_of_sparse(const at::Tensor& tensor) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();  // a wrapper has any layout
  if (const auto* const sparse = dynamic_cast<const at::SparseTensorImpl*>(impl)) {
    return storage_of(sparse->values());
  }
  if (const auto* const compressed = dynamic_cast<const at::SparseCsrTensorImpl*>(impl)) {
    return storage_of(compressed->values());
  }
  return nullptr;
}

}  // namespace reprise::engine_internal
