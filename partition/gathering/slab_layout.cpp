// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/gathering/slab_layout.h"

#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise::partition_internal {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step * step;
}

// Resolves lazy conjugation and negation, which apply on top of the bytes.
at::Tensor plain(const at::Tensor& tensor) {
  const at::Tensor unconjugated = tensor.is_conj() ? tensor.conj() : tensor;
  return unconjugated.is_neg() ? unconjugated._neg_view() : unconjugated;
}

}  // namespace

SlabLayout::SlabLayout(const std::vector<at::Tensor>& tensors) {
  std::int64_t end = 0;
  for (const at::Tensor& tensor : tensors) {
    const std::int64_t bytes = hooks_internal::distinct_elements(plain(tensor)).numel() *
                               static_cast<std::int64_t>(tensor.itemsize());
    const std::int64_t offset = rounded_up(end, kAlignment);
    parts_.push_back({.offset = offset,
                      .bytes = bytes,
                      .dtype = tensor.scalar_type(),
                      .sizes = c10::DimVector(tensor.sizes()),
                      .strides = c10::DimVector(tensor.strides()),
                      .requires_grad = tensor.requires_grad(),
                      .is_conj = tensor.is_conj(),
                      .is_neg = tensor.is_neg()});
    end = offset + bytes;
  }
}

std::int64_t SlabLayout::bytes() const { return parts_.back().offset + parts_.back().bytes; }

std::int64_t SlabLayout::part_bytes(int ranks) const {
  return rounded_up((bytes() + ranks - 1) / ranks, kPartAlignment);
}

std::vector<at::Tensor> SlabLayout::rows_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> rows;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor packed =
        hooks_internal::packed_elements(plain(hooks_internal::detached_alias(tensor)));
    rows.push_back(hooks_internal::in_a_row(packed).view(at::kByte));
  }
  return rows;
}

at::Tensor SlabLayout::cut(const std::vector<at::Tensor>& rows, int rank, int ranks) const {
  const std::int64_t size = part_bytes(ranks);
  const std::int64_t begin = size * rank;
  // Padding between tensors is transferred as well.
  at::Tensor part = at::zeros({size}, rows.front().options());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::int64_t from = std::max(begin, parts_[i].offset);
    const std::int64_t to = std::min(begin + size, parts_[i].offset + parts_[i].bytes);
    if (from < to) {
      part.narrow(0, from - begin, to - from)
          .copy_(rows[i].narrow(0, from - parts_[i].offset, to - from));
    }
  }
  return part;
}

at::Tensor SlabLayout::tensor(const at::Tensor& slab, std::size_t index) const {
  const Part& part = parts_[index];
  const at::Tensor row = slab.narrow(0, part.offset, part.bytes).view(part.dtype);
  at::Tensor tensor = hooks_internal::spread(
      hooks_internal::as_packed(row, part.sizes, part.strides), part.sizes, part.strides);
  tensor = part.is_conj ? tensor.conj() : tensor;
  tensor = part.is_neg ? tensor._neg_view() : tensor;
  // Views of one tensor share a version counter, and a write to one would invalidate the others.
  tensor = tensor.variable_data();
  return part.requires_grad ? tensor.set_requires_grad(true) : tensor;
}

std::string SlabLayout::to_string() const {
  std::string description;
  for (const Part& part : parts_) {
    description +=
        c10::str(description.empty() ? "" : ", ", part.dtype, " ", at::IntArrayRef(part.sizes));
  }
  return description;
}

}  // namespace reprise::partition_internal
