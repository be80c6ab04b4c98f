// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// How the elements of a dense tensor lie in memory, for copies without gaps and without repetition.
#ifndef REPRISE_HOOKS_STORAGE_MEMORY_LAYOUT_H_
#define REPRISE_HOOKS_STORAGE_MEMORY_LAYOUT_H_

#include <ATen/core/Tensor.h>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// Whether the tensor is its storage, looked at through sizes, strides and offset: false for sparse,
// nested and quantized ones.
inline bool is_dense(const at::Tensor& tensor) {
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  return impl.unsafe_storage() && impl.layout() == at::kStrided && !impl.is_nested() &&
         !impl.is_quantized();
}

// A view of a dense tensor with each dimension of stride 0 cut to the one element that it has in
// memory.
REPRISE_API at::Tensor distinct_elements(const at::Tensor& tensor);

// The elements of distinct_elements(), in the same order in memory, without gaps. Shares memory
// with `tensor` if that has none.
REPRISE_API at::Tensor packed_elements(const at::Tensor& tensor);

// The same in memory of their own.
at::Tensor packed_copy(const at::Tensor& tensor);

// A copy of any tensor, of the same strides where spread() can give them, in memory and with a
// version counter of its own.
at::Tensor own_copy(const at::Tensor& tensor);

// What packed_elements() or empty_packed() gave, as one dimension.
REPRISE_API at::Tensor in_a_row(const at::Tensor& packed);

// A new tensor for what packed_elements() gives of a tensor of these sizes and strides.
at::Tensor empty_packed(at::IntArrayRef sizes, at::IntArrayRef strides,
                        const at::TensorOptions& options);

// The way back from in_a_row(): what packed_elements() gave of a tensor of these sizes and strides,
// in the memory of `row`.
REPRISE_API at::Tensor as_packed(const at::Tensor& row, at::IntArrayRef sizes,
                                 at::IntArrayRef strides);

// The way back: a tensor of these sizes and strides with the values of `packed`, in whose memory it
// lies if that can be. Where elements overlap in memory in other ways than by a stride of 0, it has
// the strides of `packed`.
REPRISE_API at::Tensor spread(const at::Tensor& packed, at::IntArrayRef sizes,
                              at::IntArrayRef strides);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_MEMORY_LAYOUT_H_
