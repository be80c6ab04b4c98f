// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/host_copy.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorOptions.h>

#include "reprise/hooks/internal/memory_layout.h"

namespace reprise::hooks_internal {

HostCopy::HostCopy(const at::Tensor& tensor, bool pin_memory) : device_(tensor.device()) {
  if (tensor.layout() != at::kStrided) {
    host_ = tensor.is_cpu() ? tensor.clone() : tensor.to(at::kCPU);
    return;
  }
  sizes_ = c10::DimVector(tensor.sizes());
  strides_ = c10::DimVector(tensor.strides());
  host_ =
      empty_packed(sizes_, strides_, tensor.options().device(at::kCPU).pinned_memory(pin_memory));
  host_.copy_(distinct_elements(tensor));
}

at::Tensor HostCopy::restore() const {
  if (host_.layout() != at::kStrided) {
    return device_.is_cpu() ? host_.clone() : host_.to(device_);
  }
  const auto options = host_.options().device(device_).pinned_memory(false);
  at::Tensor packed = at::empty_strided(host_.sizes(), host_.strides(), options);
  packed.copy_(host_);
  return spread(packed, sizes_, strides_);
}

}  // namespace reprise::hooks_internal
