// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/kept_result.h"

#include "reprise/hooks/internal/hook_stack.h"

namespace reprise::engine_internal {

KeptResult::KeptResult(const at::Tensor& tensor, bool offload) {
  if (offload && !tensor.is_cpu()) {
    host.emplace(tensor, /*pin_memory=*/true);
  } else {
    alias = hooks_internal::detached_alias(tensor);
    version = version_of(tensor);
  }
}

bool is_keepable(const at::Tensor& tensor) {
  return is_dense(tensor) && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor whole_result(const at::Tensor& tensor, const MadeTensor& made) {
  at::Tensor whole = hooks_internal::detached_alias(tensor);
  if (!made.metadata.matches_shape(tensor) || tensor.scalar_type() != made.metadata.dtype ||
      tensor.storage_offset() != made.storage_offset) {
    c10::TensorImpl& impl = *whole.unsafeGetTensorImpl();
    impl.set_storage_and_dtype(tensor.storage(), c10::scalarTypeToTypeMeta(made.metadata.dtype));
    impl.set_sizes_and_strides(made.metadata.sizes, made.metadata.strides, made.storage_offset);
  }
  return whole;
}

}  // namespace reprise::engine_internal
