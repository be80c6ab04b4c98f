// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/graphless_alias.h"

#include <ATen/SparseCsrTensorUtils.h>

#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

at::Tensor graphless_alias(const at::Tensor& tensor) {
  at::Tensor alias = hooks_internal::detached_alias(tensor);
  if (tensor.defined() && at::sparse_csr::is_sparse_compressed(tensor.layout())) {
    at::SparseCsrTensorImpl& impl = *at::sparse_csr::get_sparse_csr_impl(alias);
    impl.set_member_tensors(impl.compressed_indices(), impl.plain_indices(),
                            hooks_internal::detached_alias(impl.values()), impl.sizes());
  }
  return alias;
}

}  // namespace reprise::engine_internal
