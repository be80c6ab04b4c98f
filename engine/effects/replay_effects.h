// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Effects happen once: prevents a replay from writing to tensors that existed before it.
//
// Note [Writes that are left out]: forward has done the write already. The replay therefore skips
// the operator, or, if it has other results as well, runs it on copies. If the region reads what it
// has written, the operator runs on memory of the replay's own, or reads see forward's copy: Note
// [Outside memory]. Contents that have been neither copied nor computed again and that have changed
// are an error if they are needed (StaleSlots).
//
// Autograd, above the interceptor, records the write nevertheless: it counts the version and
// changes the tensor's gradient edge. Both are restored as soon as the engine has control again.
//
// Note [Writes to freed storages]: the tensor's storage has no bytes when the replay begins. So
// ZeRO-3 and FSDP free a parameter after forward, and the region's code or hooks resize its storage
// and write to it again in each run. Its owner believes it filled afterwards: such a storage
// belongs to the replay.
#ifndef REPRISE_ENGINE_EFFECTS_REPLAY_EFFECTS_H_
#define REPRISE_ENGINE_EFFECTS_REPLAY_EFFECTS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/ids/strong_id.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/outside/replay_memory.h"
#include "reprise/engine/watch/replay_watch.h"

namespace reprise::engine_internal {

// Skips an operator whose only results are its targets: the arguments are the results.
void leave_out(const OperatorCall& call);

// Lives for one replay, on its thread.
class ReplayEffects final : public OperatorInterceptor {
 public:
  // region: its name, for errors. watch: null if forward was not watched. All must outlive this.
  ReplayEffects(const std::string& region, MemoryTable& table, ReplayMemory& memory,
                ReplayWatch* watch)
      : region_(region), table_(table), memory_(memory), watch_(watch) {}

  // The tensor belongs to the replay.
  void adopt(const at::Tensor& tensor);
  void adopt(MemoryTable::WeakStorage storage);
  // From now on adopted memory must not be written, like that of tensors from outside.
  void disown(StorageId memory);

  // Throws MutationError.
  void intercept(const OperatorCall& call) override;

  // Restores versions and gradient edges that autograd has changed for skipped writes.
  void settle() override;

  // The tensor has been saved for backward.
  void note_save(const at::Tensor& tensor) {
    awaits_write_ = awaits_write_ || find(storage_id_of(tensor)).is_unset;
  }
  // Returns whether the operator that has saved tensors has yet to write to one of them, like rrelu
  // to its noise.
  bool awaits_write() const { return awaits_write_; }

  bool has_adopted(const at::Tensor& tensor) const {
    return find(storage_id_of(tensor)).is_adopted || memory_.hides(tensor);
  }
  bool has_made(const at::Tensor& tensor) const {
    return find(storage_id_of(tensor)).is_inside || memory_.hides(tensor);
  }
  // Returns whether a write to the tensor has been skipped.
  bool has_left_out(const at::Tensor& tensor) const {
    return find(storage_id_of(tensor)).is_left_out;
  }

 private:
  struct Untouched {
    at::Tensor tensor;
    std::int64_t version;
    torch::autograd::Edge edge;
  };

  void adopt(MemoryId memory);

  struct Memory {
    bool is_inside = false;    // belongs to the replay
    bool is_adopted = false;   // which has not made it
    bool is_disowned = false;  // again from outside
    bool is_unset = false;     // uninitialised
    bool is_left_out = false;  // a write to it was skipped
  };
  Memory find(StorageId memory) const {
    const MemoryId id = table_.find(memory);
    return known_.contains(id) ? known_[id] : Memory();
  }
  bool is_outside(const at::Tensor& tensor, const OperatorTraits& traits);
  // Returns the written arguments that are, or whose lists contain, tensors from outside.
  std::vector<std::uint32_t> outside_arguments(const OperatorCall& call);
  // Returns whether none of its tensors, which are all from outside, has contents that the replay
  // reads.
  bool may_leave_out_write(const c10::IValue& argument, const OperatorTraits& traits);

  void run_inside(const OperatorCall& call);
  void note_made(const OperatorCall& call, const StorageIdList& arguments, MemoryId memory);
  void note_writes_to_freed(const OperatorCall& call);
  void give_statistics(const OperatorCall& call) const;
  void run_elsewhere(const OperatorCall& call, const std::vector<std::uint32_t>& outside);
  at::Tensor elsewhere(const OperatorCall& call, std::uint32_t argument, std::uint32_t element,
                       const at::Tensor& tensor);
  void show_own_memory(const OperatorCall& call);
  at::Tensor copy_for_write(const OperatorCall& call, std::uint32_t argument, std::uint32_t element,
                            const at::Tensor& tensor) const;

  // Returns whether the operator was a host read in forward, whose result has been supplied again.
  bool replay_host_read(const OperatorCall& call);
  void keep_untouched(const at::Tensor& tensor);

  const std::string& region_;
  MemoryTable& table_;
  ReplayMemory& memory_;
  ReplayWatch* const watch_;
  base_internal::IdVector<MemoryId, Memory> known_;
  bool has_unset_ = false;
  bool awaits_write_ = false;
  std::vector<Untouched> untouched_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_EFFECTS_REPLAY_EFFECTS_H_
