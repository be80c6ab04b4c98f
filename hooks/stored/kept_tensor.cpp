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

bool KeptTensor::is_unchanged() const { return version_of(alias_) == version_; }

at::Tensor KeptTensor::get() {
  TORCH_CHECK(is_unchanged(),
              "[stores] a tensor needed for gradient computation has been modified by an inplace "
              "operation: ",
              alias_.toString(), " ", alias_.sizes(), " on ", alias_.device(), " is at version ",
              alias_._version(), "; expected version ", version_,
              " instead. It was left where it is; clone it before changing it");
  return with_requires_grad(alias_, requires_grad_);
}

std::int64_t KeptTensor::device_bytes() const {
  return alias_.has_storage() ? alias_.storage().nbytes() : 0;
}

bool is_parameter(const at::Tensor& tensor) {
  const at::TensorBase& base = tensor.is_view() ? tensor._base() : tensor;
  return base.is_leaf() && base.requires_grad();
}

}  // namespace reprise::hooks_internal
