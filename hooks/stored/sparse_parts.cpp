// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/sparse_parts.h"

#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <c10/core/Layout.h>
#include <c10/util/DimVector.h>

#include <utility>
#include <vector>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/has_bytes.h"

namespace reprise::hooks_internal {
namespace {

class SparseEntry final : public StoredTensor {
 public:
  SparseEntry(ActivationStore& store, const at::Tensor& tensor)
      : sizes_(tensor.sizes()),
        layout_(tensor.layout()),
        is_coalesced_(layout_ == at::kSparse && tensor.is_coalesced()),
        requires_grad_(tensor.requires_grad()) {
    for (const at::Tensor& part : sparse_parts(tensor)) {
      parts_.push_back(store.put(part));
    }
  }

  void prefetch() override {
    for (const auto& part : parts_) {
      part->prefetch();
    }
  }

  at::Tensor get() override { return from_parts(&StoredTensor::get); }
  at::Tensor get_own() override { return from_parts(&StoredTensor::get_own); }

  [[nodiscard]] std::int64_t device_bytes() const override {
    std::int64_t bytes = 0;
    for (const auto& part : parts_) {
      bytes += part->device_bytes();
    }
    return bytes;
  }

 private:
  at::Tensor from_parts(at::Tensor (StoredTensor::*bring_back)()) const {
    const UnseenScope unseen;
    std::vector<at::Tensor> parts;
    for (const auto& part : parts_) {
      parts.push_back(((*part).*bring_back)());
    }
    const at::TensorOptions options = parts.back().options().layout(layout_);
    const at::Tensor tensor =
        layout_ == at::kSparse
            ? at::_sparse_coo_tensor_unsafe(parts[0], parts[1], sizes_, options, is_coalesced_)
            : at::_sparse_compressed_tensor_unsafe(parts[0], parts[1], parts[2], sizes_, options);
    return with_requires_grad(tensor, requires_grad_);
  }

  const c10::DimVector sizes_;
  const at::Layout layout_;
  const bool is_coalesced_;
  const bool requires_grad_;
  std::vector<std::unique_ptr<StoredTensor>> parts_;
};

}  // namespace

// Parts of a tensor of a class in Python would come back without the class.
bool is_sparse(const at::Tensor& tensor) {
  if (is_of_python_class(tensor)) {
    return false;
  }
  switch (tensor.layout()) {
    case at::kSparse:
    case at::kSparseCsr:
    case at::kSparseCsc:
    case at::kSparseBsr:
    case at::kSparseBsc:
      return true;
    default:
      return false;
  }
}

std::vector<at::Tensor> sparse_parts(const at::Tensor& tensor) {
  switch (tensor.layout()) {
    case at::kSparseCsr:
    case at::kSparseBsr:
      return {tensor.crow_indices(), tensor.col_indices(), tensor.values()};
    case at::kSparseCsc:
    case at::kSparseBsc:
      return {tensor.ccol_indices(), tensor.row_indices(), tensor.values()};
    default:
      return {tensor._indices(), tensor._values()};
  }
}

std::unique_ptr<StoredTensor> put_parts(ActivationStore& store, const at::Tensor& tensor) {
  const UnseenScope unseen;
  return std::make_unique<SparseEntry>(store, tensor);
}

}  // namespace reprise::hooks_internal
