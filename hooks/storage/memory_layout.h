// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory layout of a dense tensor's elements, for copies without gaps and repetition.
#ifndef REPRISE_HOOKS_STORAGE_MEMORY_LAYOUT_H_
#define REPRISE_HOOKS_STORAGE_MEMORY_LAYOUT_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <typeinfo>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// Returns whether the tensor is a strided view of its storage: false for sparse, nested and
// quantized ones, for tensors of other classes of C++ whose elements are elsewhere, and for zero
// tensors, which have no memory.
inline bool is_dense(const at::Tensor& tensor) {
  using c10::DispatchKeySet;
  constexpr auto kOtherKinds = DispatchKeySet(c10::DispatchKey::NestedTensor) |
                               DispatchKeySet(c10::DispatchKey::Quantized) |
                               DispatchKeySet(c10::DispatchKey::ZeroTensor);
  const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  const c10::Storage& storage = impl.unsafe_storage();
  return storage && !impl.key_set().has_any(kOtherKinds) && impl.layout() == at::kStrided &&
         (storage.unsafeGetStorageImpl()->nbytes() > 0 || typeid(impl) == typeid(c10::TensorImpl));
}

// Returns whether the sizes, or the strides, are the same. They are few: a call of memcmp() costs
// more than the comparison.
inline bool are_same_dims(at::IntArrayRef one, at::IntArrayRef other) {
  if (one.size() != other.size()) {
    return false;
  }
  for (std::size_t dim = 0; dim < one.size(); ++dim) {
    if (one[dim] != other[dim]) {
      return false;
    }
  }
  return true;
}

// Returns the bytes of the tensor's elements.
inline std::int64_t byte_count(const at::Tensor& tensor) {
  return static_cast<std::int64_t>(tensor.nbytes());
}

// Returns a view of a dense tensor with each dimension of stride 0 reduced to its one element in
// memory.
REPRISE_API at::Tensor distinct_elements(const at::Tensor& tensor);

// Returns the elements of distinct_elements(), in the same order in memory, without gaps. Shares
// memory with `tensor` if that has no gaps.
REPRISE_API at::Tensor packed_elements(const at::Tensor& tensor);

// The same in separate memory.
at::Tensor packed_copy(const at::Tensor& tensor);

// Returns a copy of any tensor, with the same strides if spread() supports them, in separate memory
// and with its own version counter.
at::Tensor own_copy(const at::Tensor& tensor);

// Returns the result of packed_elements() or empty_packed() as one dimension.
REPRISE_API at::Tensor in_a_row(const at::Tensor& packed);

// Returns a new tensor for the result of packed_elements() on a tensor of these sizes and strides.
at::Tensor empty_packed(at::IntArrayRef sizes, at::IntArrayRef strides,
                        const at::TensorOptions& options);

// The inverse of in_a_row(): returns the result of packed_elements() for a tensor of these sizes
// and strides, in the memory of `row`.
REPRISE_API at::Tensor as_packed(const at::Tensor& row, at::IntArrayRef sizes,
                                 at::IntArrayRef strides);

// The inverse: returns a tensor of these sizes and strides with the values of `packed`, in its
// memory if possible. If elements overlap in memory other than by a stride of 0, the result has the
// strides of `packed`.
REPRISE_API at::Tensor spread(const at::Tensor& packed, at::IntArrayRef sizes,
                              at::IntArrayRef strides);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_MEMORY_LAYOUT_H_
