// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that stand for results which a replay does not need: of the right shape, with memory that
// they share and that nothing reads.
#ifndef REPRISE_ENGINE_FUNCTION_STAND_INS_H_
#define REPRISE_ENGINE_FUNCTION_STAND_INS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

// The memory without forward's contents: see Note [Stand-ins]. Lives for one replay, on its thread;
// its tensors may outlive it.
class StandIns {
 public:
  // Returns a tensor with a storage of its own. On the CPU its memory is reserved without being
  // allocated, elsewhere it is a part of one allocation. has_memory: allocates, as the region's
  // code may fill the tensor through a pointer.
  at::Tensor make(const Geometry& geometry, c10::Device device, bool has_memory);
  // A write to the tensor is left out.
  void note_left_out(const at::Tensor& target);
  // The tensor is about to get forward's contents.
  void note_filled(const at::Tensor& target);

  bool empty() const { return unset_.empty(); }
  bool contains(const at::Tensor& tensor) const { return unset_.contains(storage_id_of(tensor)); }
  // Returns the memory that exists outside of the replay. ours: the number of our own references.
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> left(
      absl::FunctionRef<std::size_t(StorageId)> ours) const;

 private:
  struct Unset {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents the reuse of its address
    bool is_stand_in = false;                           // otherwise writes to it were left out
  };
  struct Block {
    std::shared_ptr<void> memory;
    std::size_t bytes = 0;
  };

  at::Tensor unset_like(const Geometry& geometry, c10::Device device);
  std::shared_ptr<void> memory_of(c10::Device device, std::size_t bytes);

  absl::flat_hash_map<StorageId, Unset> unset_;
  absl::flat_hash_map<c10::Device, Block, std::hash<c10::Device>> blocks_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_STAND_INS_H_
