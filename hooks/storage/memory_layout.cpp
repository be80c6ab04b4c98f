// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/storage/memory_layout.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/DimVector.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "reprise/hooks/storage/has_bytes.h"

namespace reprise::hooks_internal {
namespace {

std::vector<std::size_t> dims_by_stride(at::IntArrayRef strides) {
  std::vector<std::size_t> inner_first(strides.size());
  std::iota(inner_first.rbegin(), inner_first.rend(), 0);
  std::stable_sort(inner_first.begin(), inner_first.end(),
                   [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  return inner_first;
}

// Returns the strides of a block without gaps whose dimensions have the same order in memory.
c10::DimVector packed_strides(at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::DimVector packed(sizes.size(), 1);
  std::int64_t step = 1;
  for (const std::size_t dim : dims_by_stride(strides)) {
    packed[dim] = step;
    step *= std::max<std::int64_t>(sizes[dim], 1);
  }
  return packed;
}

c10::DimVector distinct_sizes(at::IntArrayRef sizes, at::IntArrayRef strides) {
  c10::DimVector distinct(sizes);
  for (std::size_t dim = 0; dim < distinct.size(); ++dim) {
    if (strides[dim] == 0 && distinct[dim] > 1) {
      distinct[dim] = 1;
    }
  }
  return distinct;
}

// Returns true if no two indices can refer to the same element.
bool are_elements_apart(at::IntArrayRef sizes, at::IntArrayRef strides) {
  std::int64_t reach = 0;  // of the inner dimensions
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

// Returns whether the strides are equivalent for a tensor of these sizes.
bool are_equal_strides(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b) {
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (sizes[dim] > 1 && a[dim] != b[dim]) {
      return false;
    }
  }
  return true;
}

}  // namespace

at::Tensor distinct_elements(const at::Tensor& tensor) {
  return tensor.as_strided(distinct_sizes(tensor.sizes(), tensor.strides()), tensor.strides());
}

at::Tensor empty_packed(at::IntArrayRef sizes, at::IntArrayRef strides,
                        const at::TensorOptions& options) {
  const c10::DimVector distinct = distinct_sizes(sizes, strides);
  return at::empty_strided(distinct, packed_strides(distinct, strides), options);
}

at::Tensor packed_elements(const at::Tensor& tensor) {
  const at::Tensor distinct = distinct_elements(tensor);
  const c10::DimVector strides = packed_strides(distinct.sizes(), distinct.strides());
  if (are_equal_strides(distinct.sizes(), distinct.strides(), strides)) {
    return distinct.as_strided(distinct.sizes(), strides);
  }
  return packed_copy(tensor);
}

at::Tensor packed_copy(const at::Tensor& tensor) {
  return empty_packed(tensor.sizes(), tensor.strides(), tensor.options())
      .copy_(distinct_elements(tensor));
}

at::Tensor own_copy(const at::Tensor& tensor) {
  if (!has_bytes(tensor)) {
    return tensor.clone().variable_data();
  }
  // Lazy conjugation and negation apply on top of the values.
  const at::Tensor unconjugated = tensor.is_conj() ? tensor.conj() : tensor;
  const at::Tensor plain = unconjugated.is_neg() ? unconjugated._neg_view() : unconjugated;
  at::Tensor copy = spread(packed_copy(plain), tensor.sizes(), tensor.strides());
  copy = tensor.is_neg() ? copy._neg_view() : copy;
  copy = tensor.is_conj() ? copy.conj() : copy;
  return copy.variable_data();
}

at::Tensor in_a_row(const at::Tensor& packed) { return packed.as_strided({packed.numel()}, {1}); }

at::Tensor as_packed(const at::Tensor& row, at::IntArrayRef sizes, at::IntArrayRef strides) {
  const c10::DimVector distinct = distinct_sizes(sizes, strides);
  return row.as_strided(distinct, packed_strides(distinct, strides));
}

at::Tensor spread(const at::Tensor& packed, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (!are_elements_apart(packed.sizes(), strides)) {
    return packed.expand(sizes);
  }
  if (are_equal_strides(packed.sizes(), packed.strides(), strides)) {
    return packed.as_strided(sizes, strides);
  }
  at::Tensor tensor = at::empty_strided(sizes, strides, packed.options());
  distinct_elements(tensor).copy_(packed);
  return tensor;
}

}  // namespace reprise::hooks_internal
