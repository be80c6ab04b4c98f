// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// One way to recompute a region: what it records while forward runs, and how it supplies saved
// tensors again. The frame owns one and knows no more of it than this interface.
//
// To add a form: implement the three classes below in a room of its own, and return it from
// make_recomputation() in engine/region/forward_region.cpp.
#ifndef REPRISE_ENGINE_RECOMPUTATION_RECOMPUTATION_H_
#define REPRISE_ENGINE_RECOMPUTATION_RECOMPUTATION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/checks/slot_id.h"
#include "reprise/engine/kept/held_value.h"
#include "reprise/engine/kept/region_input.h"
#include "reprise/engine/policy/policy_region.h"
#include "reprise/engine/recomputation/region_record.h"

namespace reprise::engine_internal {

// A slot's tensor, as a recomputation supplies it.
struct RecomputedTensor {
  at::Tensor tensor;
  std::int64_t version : 56 = 0;  // of its counter, when it was supplied
  // The memory that forward's tensor was in holds other contents now: see Note [Outside memory].
  bool is_moved : 8 = false;
};

using FilledSlots = std::vector<std::pair<SlotId, RecomputedTensor>>;

// The slots that a session asks for.
struct SlotRequest {
  std::optional<SlotId> asked;            // none: all that are wanted
  absl::FunctionRef<bool(SlotId)> wants;  // whether a slot's tensor is wanted, now
  absl::FunctionRef<SlotSet()> all;       // the same for every slot of the record
  bool is_last = false;                   // the backward frees the nodes that it runs
};

// The part of one session in one region, from its first request to its end. One thread at a time.
class SessionRecomputation {
 public:
  virtual ~SessionRecomputation() = default;

  // Returns the tensors of the slot asked for, and of further slots that are wanted. Called without
  // the frame's lock. Throws MutationError, DeterminismError, or an exception of the code that it
  // runs.
  virtual FilledSlots fill(const SlotRequest& request) = 0;

  // Tensors supplied so far are wanted again: the next call computes as the first one did.
  virtual void restart() = 0;
};

// What a session holds besides its part of the recomputation: tensors that it has been supplied
// with, and that no caller has received yet.
struct SessionHoldings {
  SessionRecomputation* recomputation;  // null before the first request
  std::vector<std::pair<SlotId, at::Tensor*>> supplied;
};

// The part that lasts as long as the region's forward, on forward's thread.
class ForwardRecording {
 public:
  virtual ~ForwardRecording() = default;

  // Returns null if no policy is asked.
  virtual PolicyRegion* policy_region() = 0;

  // Stops intercepting operators. The record is completed later, by end_forward().
  virtual void stop() = 0;
};

// Values that no slot needs any more, to be destroyed without the frame's lock.
class ReleasedValues {
 public:
  virtual ~ReleasedValues() = default;
};

class Recomputation {
 public:
  virtual ~Recomputation() = default;

  // Starts to intercept operators on this thread. `policy` and `enclosing` may be null.
  virtual std::unique_ptr<ForwardRecording> begin_forward(std::shared_ptr<Policy> policy,
                                                          PolicyRegion* enclosing) = 0;

  // Autograd saves a tensor: locates it, and returns its origin. is_input: instead, a region inside
  // gives it away as its input. Called without the frame's lock, before add_slot() on the same
  // thread.
  virtual SlotProvenance locate(const at::Tensor& tensor, bool is_input) = 0;
  // Assigns the slot to that tensor. Called with the frame's lock.
  virtual void add_slot(SlotId slot, const at::Tensor& tensor) = 0;

  // Forward has ended: releases values that no slot in `alive` needs, and completes the record's
  // state. may_pack: retained values may go to the surrounding saved-tensor hooks, which may throw.
  virtual void end_forward(const SlotSet& alive, bool may_pack) = 0;

  virtual std::unique_ptr<SessionRecomputation> begin_session() = 0;

  // Returns whether a session may receive tensors of an earlier one. See Note [Shared tensors].
  virtual bool may_share() const { return true; }
  // Returns whether the frame keeps the tensors that a backward has received, for the next backward
  // through the same graph, until it is told to drop them. See the same Note.
  virtual bool keeps_supplied() const { return false; }

  // Slots have died, after forward ended. Called with the frame's lock while no session
  // recomputes; the result, which may be null, outlives the lock.
  virtual std::unique_ptr<ReleasedValues> drop_slots(std::span<const SlotId> slots) = 0;

  // A caller receives the slot's tensor.
  virtual void note_read(SlotId /*slot*/) {}

  // Takes values on the device that could be computed again, of at least `bytes` together if there
  // are as many, from the record and the sessions, and returns them. Called with the frame's lock,
  // on forward's thread while that runs; no other thread recomputes.
  virtual std::vector<at::Tensor> evict(std::int64_t /*bytes*/, c10::Device /*device*/,
                                        std::span<const SessionHoldings> /*sessions*/) {
    return {};
  }

  // The tensors retained since entry.
  virtual std::span<const RegionInput> inputs() const = 0;

  // Appends what is retained since entry: inputs, and values that are there without a
  // recomputation. Called with the frame's lock.
  virtual void append_held(HeldValues& held) const = 0;

  // Whether a store holds a retained value, and all such values, in the same order in each process.
  virtual bool has_stored() const = 0;
  virtual void append_stored(std::vector<std::shared_ptr<StoredTensor>>& stored) const = 0;
};

class TapeRetention;

// The facts about a region's entry that forms of recomputation depend on.
struct RegionEntry {
  const CheckpointOptions& options;
  bool asks_policy = false;
  bool is_nested = false;      // the innermost hooks belong to an enclosing region
  bool through_hooks = false;  // retained results go to the surrounding saved-tensor hooks
  std::shared_ptr<TapeRetention> retention = nullptr;  // of a tape, decides instead of a policy
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_RECOMPUTATION_RECOMPUTATION_H_
