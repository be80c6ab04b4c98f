// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors of one device as one row of bytes, of which each rank has an equal shard.
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
  // The alignment of tensors. That of LibTorch's CPU allocator, on which the choice of kernels may
  // depend: the bits of results must not depend on a tensor's address.
  static constexpr std::int64_t kAlignment = 64;
  // The size granularity of shards, for efficient copies on accelerators.
  static constexpr std::int64_t kPartAlignment = 16;

  // For dense tensors with elements.
  explicit SlabLayout(const std::vector<at::Tensor>& tensors);

  // Returns the bytes of each, without gaps and repetition. Shares memory if there are none.
  static std::vector<at::Tensor> rows_of(const std::vector<at::Tensor>& tensors);

  // Returns a rank's shard of the slab, in separate memory.
  at::Tensor cut(const std::vector<at::Tensor>& rows, int rank, int ranks) const;

  // The inverse: returns the tensor at `index`, in the memory of the whole slab if possible, with
  // its own version counter.
  at::Tensor tensor(const at::Tensor& slab, std::size_t index) const;

  std::int64_t part_bytes(int ranks) const;
  std::int64_t bytes_of(std::size_t index) const { return parts_[index].bytes; }
  std::int64_t bytes() const;
  std::size_t size() const { return parts_.size(); }

  // Returns "Float [4, 8], Long [3]".
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
