// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that stand for results which a replay does not need: of the right shape, with memory that
// they share and that nothing reads.
#ifndef REPRISE_ENGINE_SELECTIVE_UNSET_MEMORY_H_
#define REPRISE_ENGINE_SELECTIVE_UNSET_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/checks/saved_tensor_record.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread; its tensors may outlive it.
class UnsetMemory {
 public:
  // Returns a tensor with a storage of its own. On the CPU its memory is reserved without being
  // allocated, elsewhere it is a part of one allocation.
  at::Tensor tensor_like(const TensorMetadata& metadata);

  // Gives the storage of such a tensor memory of its own.
  static void allocate(const at::Tensor& tensor);

 private:
  struct Block {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };

  std::shared_ptr<void> memory_of(c10::Device device, std::size_t bytes);

  absl::flat_hash_map<c10::Device, Block, std::hash<c10::Device>> blocks_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_SELECTIVE_UNSET_MEMORY_H_
