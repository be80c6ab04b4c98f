// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/storage/storage_view.h"

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::hooks_internal {
namespace {

at::Tensor look_at(const at::Tensor& tensor, c10::ScalarType dtype, at::IntArrayRef sizes,
                   at::IntArrayRef strides, std::int64_t offset) {
  at::Tensor view = detached_alias(tensor);
  c10::TensorImpl& impl = *view.unsafeGetTensorImpl();
  impl.set_storage_and_dtype(tensor.storage(), c10::scalarTypeToTypeMeta(dtype));
  impl.set_sizes_and_strides(sizes, strides, offset);
  view._set_conj(false);
  view._set_neg(false);
  return view;
}

}  // namespace

StorageView::StorageView(const at::Tensor& tensor)
    : dtype_(tensor.scalar_type()),
      sizes_(tensor.sizes()),
      strides_(tensor.strides()),
      offset_(tensor.storage_offset()),
      is_conj_(tensor.is_conj()),
      is_neg_(tensor.is_neg()),
      requires_grad_(tensor.requires_grad()),
      is_compact_(2 * distinct_elements(tensor).nbytes() < tensor.storage().nbytes()) {}

at::Tensor StorageView::of(const at::Tensor& bytes) const {
  if (!is_compact_) {
    at::Tensor view = look_at(bytes, dtype_, sizes_, strides_, offset_);
    view._set_conj(is_conj_);
    view._set_neg(is_neg_);
    return requires_grad_ ? view.set_requires_grad(true) : view;
  }
  const at::Tensor like = empty_packed(sizes_, strides_, at::TensorOptions(at::kMeta));
  const at::Tensor packed = look_at(bytes, dtype_, like.sizes(), like.strides(), 0);
  return with_requires_grad(spread(packed, sizes_, strides_), requires_grad_);
}

at::Tensor storage_bytes(const at::Tensor& tensor) {
  const auto length = static_cast<std::int64_t>(tensor.storage().nbytes());
  return look_at(tensor, at::kByte, {length}, {1}, 0);
}

at::Tensor compact_elements(const at::Tensor& tensor) { return storage_bytes(packed_copy(tensor)); }

}  // namespace reprise::hooks_internal
