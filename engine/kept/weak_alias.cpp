// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/weak_alias.h"

#include <torch/csrc/autograd/variable.h>

#include <utility>

#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {

WeakAlias::WeakAlias(const at::Tensor& tensor)
    : storage_(weak_storage_of(tensor)),
      keys_(hooks_internal::detached_alias(tensor).key_set()),
      counter_(torch::autograd::impl::version_counter(tensor)),
      dtype_(tensor.scalar_type()),
      sizes_(tensor.sizes().begin(), tensor.sizes().end()),
      strides_(tensor.strides().begin(), tensor.strides().end()),
      offset_(tensor.storage_offset()) {}

bool WeakAlias::is_freed() const {
  const c10::intrusive_ptr<c10::StorageImpl> memory = storage();
  return memory && memory->nbytes() == 0;
}

at::Tensor WeakAlias::lock() const {
  c10::intrusive_ptr<c10::StorageImpl> memory = storage();
  if (!memory) {
    return {};
  }
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(memory)), keys_, c10::scalarTypeToTypeMeta(dtype_));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes_, strides_, offset_);
  torch::autograd::impl::set_version_counter(tensor, counter_);
  return is_beyond_storage(tensor) ? at::Tensor() : tensor;
}

}  // namespace reprise::engine_internal
