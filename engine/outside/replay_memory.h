// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory from outside as a function replay sees it: with the contents that forward found there, or
// that the replay itself has written, while the memory stays as it is. See Note [Outside memory].
//
// Operators receive aliases over the replay's memory in place of their arguments. Code that reads
// the memory without an operator, through a pointer, sees what is there.
#ifndef REPRISE_ENGINE_OUTSIDE_REPLAY_MEMORY_H_
#define REPRISE_ENGINE_OUTSIDE_REPLAY_MEMORY_H_

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/outside/written_memory.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class ReplayMemory {
 public:
  // written: null if forward was not observed. Must outlive this.
  explicit ReplayMemory(const WrittenMemory* written) : written_(written) {}

  // The replay begins, when these storages have no bytes: what it writes to them stays there.
  void start(std::vector<MemoryTable::WeakStorage> freed);
  const std::vector<MemoryTable::WeakStorage>& freed() const { return freed_; }
  bool is_freed(StorageId memory) const {
    return std::any_of(freed_.begin(), freed_.end(), [memory](const auto& storage) {
      return storage._unsafe_get_target() == memory;
    });
  }

  // An operator is about to write to a tensor from outside: from now on the replay sees memory of
  // its own there, if the region reads what it writes.
  void note_write(const OperatorTraits& traits, const at::Tensor& target);
  // The same for a tensor of forward's, which forward still reads: from now on the replay sees a
  // copy of its memory.
  void copy_before_write(const at::Tensor& target);
  // An operator has written to `target`, and counted the write: the replay's memory counts it too.
  // After an uncounted write, tensors saved before have the new contents, as in plain autograd.
  void note_counted_write(const at::Tensor& target);
  // An operator is about to write to memory that the replay has made.
  void note_write_inside(StorageId memory) {
    if (!filled_.contains(memory)) {
      own_.erase(memory);
    }
  }
  // An operator is about to read a tensor that forward read after so many writes to `memory`.
  // Returns whether its contents are known: the replay then sees them.
  bool note_read(const at::Tensor& tensor, StorageId memory, std::uint32_t writes);

  // Whether the replay sees other memory there.
  bool hides(const at::Tensor& tensor) const {
    return !own_.empty() && own_.contains(storage_id_of(tensor));
  }
  // Whether the replay has written the contents that it sees there.
  bool is_filled(StorageId memory) const { return filled_.contains(memory); }
  bool hides_any() const { return !own_.empty(); }
  // Returns the tensor as the replay sees it: itself, or an alias without graph.
  at::Tensor seen(const at::Tensor& tensor) const;
  // Returns the same, but an undefined tensor in place of the tensor itself.
  at::Tensor hidden_contents(const at::Tensor& tensor) const {
    return hides(tensor) ? seen(tensor) : at::Tensor();
  }
  // Returns hidden_contents() after note_read().
  at::Tensor seen_by_read(const at::Tensor& tensor, std::uint32_t writes) const;

 private:
  struct Own {
    at::Tensor bytes;
    c10::VariableVersion version;
    c10::weak_intrusive_ptr<c10::StorageImpl> hidden;  // prevents the reuse of its address
  };

  void hide(const at::Tensor& target, at::Tensor bytes);

  const WrittenMemory* const written_;
  std::vector<MemoryTable::WeakStorage> freed_;
  absl::flat_hash_set<StorageId> filled_;
  absl::flat_hash_map<StorageId, Own> own_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OUTSIDE_REPLAY_MEMORY_H_
