// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/host_copy.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorOptions.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace reprise::hooks_internal {
namespace {

std::vector<std::size_t> dims_by_stride(at::IntArrayRef strides) {
  std::vector<std::size_t> inner_first(strides.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), 0);
  std::stable_sort(inner_first.begin(), inner_first.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  return inner_first;
}

// Strides of a block without gaps whose dimensions lie in the same order in memory.
c10::DimVector packed_strides(const c10::DimVector& sizes, at::IntArrayRef strides) {
  c10::DimVector packed(sizes.size(), 1);
  int64_t step = 1;
  for (const std::size_t dim : dims_by_stride(strides)) {
    packed[dim] = step;
    step *= std::max<int64_t>(sizes[dim], 1);
  }
  return packed;
}

// Dimensions of stride 0 cut down to the one element that they have in memory.
c10::DimVector distinct_sizes(const c10::DimVector& sizes, at::IntArrayRef strides) {
  c10::DimVector distinct = sizes;
  for (std::size_t dim = 0; dim < distinct.size(); ++dim) {
    if (strides[dim] == 0 && distinct[dim] > 1) {
      distinct[dim] = 1;
    }
  }
  return distinct;
}

// True if no two indices can mean the same element.
bool are_elements_apart(const c10::DimVector& sizes, at::IntArrayRef strides) {
  int64_t reach = 0;  // of the dimensions further in
  for (const std::size_t dim : dims_by_stride(strides)) {
    if (sizes[dim] > 1) {
      if (strides[dim] <= reach) {
        return false;
      }
      reach += (sizes[dim] - 1) * strides[dim];
    }
  }
  return true;
}

}  // namespace

HostCopy::HostCopy(const at::Tensor& tensor, bool pin_memory) : device_(tensor.device()) {
  if (tensor.layout() != at::kStrided) {
    host_ = tensor.is_cpu() ? tensor.clone() : tensor.to(at::kCPU);
    return;
  }
  sizes_ = c10::DimVector(tensor.sizes());
  strides_ = c10::DimVector(tensor.strides());
  const c10::DimVector distinct = distinct_sizes(sizes_, strides_);
  host_ = at::empty_strided(distinct, packed_strides(distinct, strides_),
                            tensor.options().device(at::kCPU).pinned_memory(pin_memory));
  host_.copy_(tensor.as_strided(distinct, strides_));
}

at::Tensor HostCopy::restore() const {
  if (host_.layout() != at::kStrided) {
    return device_.is_cpu() ? host_.clone() : host_.to(device_);
  }
  const auto options = host_.options().device(device_).pinned_memory(false);
  const c10::DimVector distinct = distinct_sizes(sizes_, strides_);
  if (!are_elements_apart(distinct, strides_)) {
    const at::Tensor packed = at::empty_strided(host_.sizes(), host_.strides(), options);
    packed.copy_(host_);
    return packed.expand(sizes_);
  }
  at::Tensor restored = at::empty_strided(sizes_, strides_, options);
  restored.as_strided(distinct, strides_).copy_(host_);
  return restored;
}

}  // namespace reprise::hooks_internal
