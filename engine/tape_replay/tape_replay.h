// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tape replay: computes the requested slots' values below autograd, and runs no operator that they
// do not depend on.
//
// Note [When a value is freed]: a computed value is retained until the last operator that a wanted
// slot depends on has read it, so that each operator runs once per session. Other wanted slots are
// filled when their values become available. See also Note [Deferred recomputation].
#ifndef REPRISE_ENGINE_TAPE_REPLAY_TAPE_REPLAY_H_
#define REPRISE_ENGINE_TAPE_REPLAY_TAPE_REPLAY_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "reprise/engine/recomputation/recomputation.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_replay/liveness.h"

namespace reprise::engine_internal {

// In bytes. Tests lower it.
inline std::atomic<std::size_t> smallest_deferred_bytes{std::size_t{256} * 1024};

class TapeRetention;

// Lives as long as a session. One thread at a time.
class TapeReplay {
 public:
  // All must outlive this.
  TapeReplay(RegionRecord& record, Tape& tape, TapeRetention& retention);

  using Wants = Liveness::Wants;

  // The wanted slots that one call computes.
  enum class Reach : std::uint8_t { kSlot, kNode, kRegion };
  // Returns the tensors of the slot `asked` and of those in its reach, or, without one, of all
  // wanted slots, and of further wanted slots. Throws MutationError, DeterminismError, or an
  // operator's exception.
  FilledSlots fill(std::optional<SlotId> asked, Reach reach, Wants wants);

  // Adds the values that this session holds. Between two calls, or inside one.
  void add_holdings(TapeEviction& eviction) { liveness_->add_holdings(eviction); }
  // Returns the operator whose value was asked for last, as an index. Of planned tapes.
  std::size_t position() const { return position_; }

  // Tensors supplied so far are wanted again: the next call computes as the first one did.
  void restart_session() { generation_.reset(); }

 private:
  friend class PlannedLiveness;

  // A tensor in the memory that holds a value. Offsets there are larger by `shift` than in forward.
  struct Base {
    at::Tensor tensor;
    std::int64_t shift = 0;
    std::int64_t version = 0;
    // The end of a message, if it has been overwritten: a slot may have it, an operator may not
    // read it.
    const char* overwritten = nullptr;
  };
  struct Work {
    Base base;
    std::uint32_t uses = 0;        // by operators that have not run, in this session
    std::uint32_t pass_uses = 0;   // in this pass
    std::uint32_t asked_in = 0;    // the pass that was to compute it for a slot
    std::uint32_t filled_in = 0;   // the pass that filled slots with it
    std::uint32_t filled_at = 0;   // the last of these slots, in filled_
    bool may_be_freed = false;     // by its owner, who fills it again: see refillable_memory.h
    bool is_brought_back = false;  // fetched from hooks or a store: not to be repeated
  };

  void restart(Wants wants);
  std::vector<SlotId> slots_for(std::optional<SlotId> asked, Reach reach, Wants wants) const;
  std::vector<TapeOperatorId> plan(const std::vector<SlotId>& slots);
  void plan_transfers(std::vector<TapeOperatorId>& operators);
  void find_refilled();
  void forget_refilled();
  bool is_available(TapeValueId value) const;
  std::vector<at::Generator> generators_of(const std::vector<TapeOperatorId>& operators) const;
  void run_all(const std::vector<TapeOperatorId>& operators, Wants wants);
  void run(TapeOperatorId index, Wants wants);
  void prepare_writes(const Tape::Operator& op);
  void push_arguments(const Tape::Operator& op, torch::jit::Stack& stack);
  void take_results(TapeOperatorId index, const torch::jit::Stack& stack);
  void fill_slots_and_free(const Tape::Operator& op, Wants wants);
  std::optional<TapeValueId> deferred(const Tape::Operator& op, Wants wants);
  bool is_cheap_from_held(SlotId slot, std::vector<TapeOperatorId>& chain,
                          std::vector<TapeValueId>& held) const;
  bool is_held_beyond(SlotId slot, TapeValueId value) const;
  SlotId first_slot_of(TapeValueId value) const;
  // Returns the first entry of slots_ for this value or a later one.
  std::vector<std::pair<TapeValueId, SlotId>>::const_iterator slots_from(TapeValueId value) const;
  void free_if_unused(TapeValueId value);
  // Returns whether an operator that has not run yet reads the value while it is there.
  bool is_used_later(TapeValueId value) const;
  std::vector<SlotId> slots_of_node(SlotId asked, Wants wants) const;
  bool is_there(TapeValueId value) const {
    return work_[value].base.tensor.defined() || is_available(value);
  }

  const Base& base_of(TapeValueId value);
  Base load(TapeValueId value);
  static const char* written_unseen(const Tape::Given& given, const at::Tensor& tensor);
  at::Tensor load_tensor(Tape::Given& given) const;
  at::Tensor parameter_now(const Tape::Given& given) const;
  bool refill(const at::Tensor& tensor) const;
  // Returns the shift of a tensor that had the geometry in forward; 0 without one.
  std::int64_t shift_of(const at::Tensor& tensor, GeometryId geometry) const;
  at::Tensor look_at(const Tape::Tensor& tensor);
  at::Tensor argument_from(const Tape::Tensor& tensor);
  bool is_in_freed_memory(TapeValueId value) const;
  void fill_slots_of(TapeValueId value, Wants wants);
  void fill_slots_of_brought_back(TapeValueId value, Wants wants);
  void fill_slot(SlotId slot);
  at::Tensor held_tensor(SlotId slot) const;
  void check_contents(SlotId slot, const at::Tensor& tensor) const;

  [[noreturn]] void fail_mutated(const std::string& what) const;
  [[noreturn]] void fail_kept_mutated(const KeptResult& kept) const;
  std::string describe_operator(TapeOperatorId index) const;

  RegionRecord& record_;
  Tape& tape_;
  TapeRetention& retention_;
  const std::unique_ptr<Liveness> liveness_;
  std::optional<std::uint32_t> generation_;
  std::uint32_t pass_ = 0;
  std::size_t position_ = 0;
  bool has_transferred_ = false;  // in this session
  // In others' memory, in this pass: see Note [Refilled memory].
  absl::flat_hash_map<TapeValueId, at::Tensor> refilled_now_;
  base_internal::IdVector<TapeOperatorId, std::uint32_t> planned_in_;  // the pass
  base_internal::IdVector<TapeValueId, Work> work_;
  std::vector<std::pair<TapeValueId, SlotId>> slots_;         // by value
  base_internal::IdVector<SlotId, std::uint32_t> filled_in_;  // the pass
  std::vector<std::pair<TapeValueId, Base>> written_;         // before, by the operator that runs
  std::optional<TapeOperatorId> running_;                     // for errors
  torch::jit::Stack stack_;                                   // empty; its capacity is reused
  FilledSlots filled_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_TAPE_REPLAY_H_
