// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors of one device as one row of bytes, of which each rank has an equal part.
#ifndef REPRISE_PARTITION_GATHERING_SLAB_LAYOUT_H_
#define REPRISE_PARTITION_GATHERING_SLAB_LAYOUT_H_

#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::partition_internal {

class SlabLayout {
 public:
  // Where tensors begin. LibTorch's allocator on the CPU aligns so, and kernels may choose their
  // way by it: the bits of results are not to depend on where a tensor lies.
  static constexpr std::int64_t kAlignment = 64;
  // What the parts of the ranks are multiples of, as copies on accelerators like it.
  static constexpr std::int64_t kPartAlignment = 16;

  // Of dense tensors with elements.
  explicit SlabLayout(const std::vector<at::Tensor>& tensors);

  // The bytes of each, without gaps and without repetition. Shares memory where there are none.
  static std::vector<at::Tensor> rows_of(const std::vector<at::Tensor>& tensors);

  // A rank's part of the slab, in memory of its own.
  at::Tensor cut(const std::vector<at::Tensor>& rows, int rank, int ranks) const;

  // The way back: the tensor at `index`, in the memory of the whole slab where that can be, with a
  // version counter of its own.
  at::Tensor tensor(const at::Tensor& slab, std::size_t index) const;

  std::int64_t part_bytes(int ranks) const;
  std::int64_t bytes_of(std::size_t index) const { return parts_[index].bytes; }
  std::int64_t bytes() const;
  std::size_t size() const { return parts_.size(); }

  // "Float [4, 8], Long [3]"
  std::string to_string() const;

 private:
  struct Part {
    std::int64_t offset;
    std::int64_t bytes;
    at::ScalarType dtype;
    c10::DimVector sizes;
    c10::DimVector strides;
    bool requires_grad;
    bool is_conj;
    bool is_neg;
  };

  std::vector<Part> parts_;
};

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_SLAB_LAYOUT_H_
