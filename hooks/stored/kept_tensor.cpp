// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/kept_tensor.h"

#include <c10/util/Exception.h>

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/storage/alias.h"

namespace reprise::hooks_internal {

KeptTensor::KeptTensor(const at::Tensor& tensor)
    : alias_(detached_alias(tensor)),
      version_(version_of(tensor)),
      requires_grad_(tensor.requires_grad()) {}

at::Tensor KeptTensor::get() {
  check_version(alias_, version_);
  return with_requires_grad(alias_, requires_grad_);
}

std::int64_t KeptTensor::device_bytes() const { return memory_bytes(alias_); }

at::Tensor kept_alias(const StoredTensor& stored) {
  const auto* const kept = dynamic_cast<const KeptTensor*>(&stored);
  return kept == nullptr ? at::Tensor() : kept->alias();
}

void check_version(const at::Tensor& tensor, std::int64_t version) {
  TORCH_CHECK(version_of(tensor) == version,
              "[stores] a tensor needed for gradient computation has been modified by an inplace "
              "operation: ",
              tensor.toString(), " ", tensor.sizes(), " on ", tensor.device(), " is at version ",
              tensor._version(), "; expected version ", version,
              " instead. It was left where it is; clone it before changing it");
}

std::int64_t memory_bytes(const at::Tensor& tensor) {
  return tensor.has_storage() ? static_cast<std::int64_t>(tensor.storage().nbytes()) : 0;
}

bool is_parameter(const at::Tensor& tensor) {
  const at::TensorBase& base = tensor.is_view() ? tensor._base() : tensor;
  return base.is_leaf() && base.requires_grad();
}

}  // namespace reprise::hooks_internal
