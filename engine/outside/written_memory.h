// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory from outside that a function region's forward writes.
//
// Note [Outside memory]: a replay must not change what code outside of it sees, and must read what
// forward read. Memory from outside that the region writes is of two kinds, which its first write
// in forward tells apart:
//   - *Refilled*: the region fills all of it before it reads any. If it reads it afterwards, a
//     replay fills it again, in memory of its own (ReplayMemory).
//   - *State*: the region reads it first, or changes a part of it (a history, a counter). A replay
//     leaves its writes out. Forward has copied the contents of each read: before the write that
//     follows, or, behind a write, with the read. The copies of a region have a limit of bytes;
//     reads behind it are compared by version.
// Memory without bytes is neither: its owner has freed it, and a replay writes to it.
#ifndef REPRISE_ENGINE_OUTSIDE_WRITTEN_MEMORY_H_
#define REPRISE_ENGINE_OUTSIDE_WRITTEN_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {

// Written on forward's thread, read by replays.
class WrittenMemory {
 public:
  // limit_bytes: of all copies.
  explicit WrittenMemory(std::int64_t limit_bytes) : bytes_left_(limit_bytes) {}

  // An operator is about to write. was_read: the region has read the memory, before it wrote to it.
  void note_write(const OperatorTraits& traits, const at::Tensor& target, bool was_read);
  // An operator of a region inside a replay is about to read the tensor, in which it finds other
  // contents than the present ones: see OperatorInterceptor::state_before().
  void note_state(const at::Tensor& tensor, const at::Tensor& state);
  // An operator is about to read. Returns the number of writes to the memory so far.
  std::uint32_t note_read(const at::Tensor& tensor);

  bool contains(StorageId memory) const { return memories_.contains(memory); }
  bool empty() const { return memories_.empty(); }
  // Whether the region has read it after it had refilled it.
  bool is_refilled_and_read(StorageId memory) const;
  // Returns the storage's bytes after that many writes; undefined if they were not copied.
  at::Tensor contents(StorageId memory, std::uint32_t writes) const;
  // Adds the storages that have no bytes now.
  void append_freed(std::vector<MemoryTable::WeakStorage>& freed) const;

 private:
  struct Memory {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // prevents the reuse of its address
    bool is_refilled;
    bool is_read = false;  // after a write
    std::uint32_t writes = 0;
    absl::InlinedVector<std::pair<std::uint32_t, at::Tensor>, 1> copies = {};  // by writes before
  };

  // Once between two writes.
  void copy(Memory& memory, const at::Tensor& tensor);

  absl::flat_hash_map<StorageId, Memory> memories_;
  std::int64_t bytes_left_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OUTSIDE_WRITTEN_MEMORY_H_
