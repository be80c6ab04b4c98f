// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors as views of a storage's bytes, for stores that store each storage once.
#ifndef REPRISE_HOOKS_STORAGE_STORAGE_VIEW_H_
#define REPRISE_HOOKS_STORAGE_STORAGE_VIEW_H_

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/DimVector.h>

#include <cstdint>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// A dense tensor's view of its storage.
class StorageView {
 public:
  explicit StorageView(const at::Tensor& tensor);

  // Returns the tensor over `bytes`, the bytes of the storage, or, if the view is compact, of
  // compact_elements().
  at::Tensor of(const at::Tensor& bytes) const;

  // Whether it is smaller than half of the storage: then only its elements are stored.
  bool is_compact() const { return is_compact_; }

 private:
  c10::ScalarType dtype_;
  c10::DimVector sizes_;
  c10::DimVector strides_;
  std::int64_t offset_;
  bool is_conj_;
  bool is_neg_;
  bool requires_grad_;
  bool is_compact_;
};

// Returns the bytes of the tensor's whole storage, as a tensor that shares its version counter.
REPRISE_API at::Tensor storage_bytes(const at::Tensor& tensor);

// Returns the bytes of a copy, on the current stream, of the tensor's elements, without gaps.
at::Tensor compact_elements(const at::Tensor& tensor);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_STORAGE_VIEW_H_
