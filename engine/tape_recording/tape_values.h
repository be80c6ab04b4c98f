// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The table of a tape's values while forward runs: the value that each memory holds now, and the
// facts about each value.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_TAPE_VALUES_H_
#define REPRISE_ENGINE_TAPE_RECORDING_TAPE_VALUES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/base/ids/strong_id.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_recording/saved_frontier.h"
#include "reprise/engine/tape_recording/tape_tables.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class TapeValues {
 public:
  struct Info {
    bool is_given = false;  // or has been: see Tape::Given
    bool is_read = false;
    bool is_read_again = false;  // by an operator that replays run
    bool is_released = false;    // was retained
    bool is_needed = false;    // by replays of a function region, which do not receive it otherwise
    bool is_constant = false;  // likewise: see Note [Constants]
    bool may_keep = true;
    bool is_kept_as_written = false;  // the retained value follows a write
    TapeOperatorId keeper = {};       // of a retained value: whose result the policy saves
    bool has_unset_parts = false;
    bool is_factorys = false;    // made of constants alone, as by zeros(): probably to be filled
    bool is_statistics = false;  // of a batch-norm that has saved them, and read by no operator
    GeometryId geometry;
    // To which no operator has written.
    std::int64_t unfilled_bytes = 0;
    std::int64_t last_filled_at = -1;  // the offset of the last write to a part
    std::int64_t bytes = 0;
    MemorySample sample = 0;  // of all bytes, for a factory; see Note [Out of sight]
    std::int64_t saved_at_version = -1;
    std::int64_t version = 0;  // of a value that an operator has made or written, when it had run
    CounterId counter = nullptr;   // of that version
    bool is_whole_sample = false;  // of all bytes
    bool is_state = false;  // memory from outside that the region has changed, and not as a whole
    bool is_rewritten = false;  // its given is a copy, for the program writes to it before backward
    bool is_in_transfer = false;  // its write is counted, if at all, when the data arrives
  };
  struct Memory {
    TapeValueId current;  // none: the region has not met it
    bool is_outside = false;
    bool is_others = false;    // was outside, until the region refilled it
    bool is_supplied = false;  // see add_supplied()

    bool is_others_or_outside() const { return is_outside || is_others; }
  };

  struct Options {
    bool follows_parameters = false;  // replays read parameters as they are then
    bool has_frontier = true;         // see Note [Frontier]
    bool samples_results = true;      // when they are made: see Note [Out of sight]
  };
  // All must outlive this.
  TapeValues(Tape& tape, TapeTables& tables, MemoryTable& memory, Options options)
      : tape_(tape), tables_(tables), memory_(memory), options_(options), frontier_(tape, *this) {}

  // Reserves space for about this many values.
  void reserve(std::size_t count) { info_.reserve(count); }

  // Returns the storage, or, without a usable one, the tensor itself.
  static StorageId key_of(const at::Tensor& tensor);

  // Returns a copy that no operator's interceptor sees, without graph.
  static at::Tensor copy_of(const at::Tensor& tensor);

  // Returns null for memory that the region has not met.
  const Memory* find(StorageId memory) const {
    const MemoryId id = memory_.find(memory);
    return memories_.contains(id) && memories_[id].current != Tape::kNone ? &memories_[id]
                                                                          : nullptr;
  }
  // Memory that the region has met.
  bool is_outside(StorageId memory) const { return find(memory)->is_outside; }
  TapeValueId current(StorageId memory) const { return find(memory)->current; }
  bool is_result_of(TapeOperatorId op, StorageId memory) const {
    const Memory* const found = find(memory);
    return found != nullptr && tape_.values[found->current].op == op;
  }

  // Returns whether replays need the value, perhaps, beside what an operator writes in its place.
  bool is_needed_itself(TapeValueId value) const {
    return info_[value].is_read_again || info_[value].saved_at_version >= 0;
  }

  Info& operator[](TapeValueId value) { return info_[value]; }
  const Info& operator[](TapeValueId value) const { return info_[value]; }

  // Returns the whole value, from a tensor in its memory.
  at::Tensor whole(TapeValueId value, const at::Tensor& tensor) const {
    const Geometry& geometry = tape_.geometries[info_[value].geometry];
    return geometry.is_of(tensor) ? tensor : geometry.look_at(tensor, 0);
  }

  // Adds the value that `memory` holds from now on, which an operator has made, or a tape input.
  TapeValueId add_made(StorageId memory, const at::Tensor& tensor, TapeOperatorId op) {
    return add(memory, tensor, {.op = op}, /*is_outside=*/false);
  }
  TapeValueId add_input(StorageId memory, const at::Tensor& tensor, Tape::Given::Why why);
  // A backward inside the region has received `tensor`, a recomputation of the value. Until it is
  // written, the memory holds the value as well: what reads it there can be recomputed from that.
  void add_supplied(const Tape::Tensor& place, const at::Tensor& tensor);
  // Adds memory of this size and dtype that an operator is about to fill.
  TapeValueId add_unset(const at::Tensor& tensor);
  // Adds the value of the operator `op`, which is complete but for that, and the operator: see Note
  // [Assembled tensors].
  TapeValueId add_assembled(Tape::Operator op);
  // The operator that made the value has filled all of the tensor's storage.
  void note_refilled(TapeValueId value, const at::Tensor& tensor);
  // The operator has returned, and autograd has counted its write.
  void note_version(TapeValueId value, const at::Tensor& tensor);
  // The retained tensor of a tape input has been written: its new version is the expected one.
  void note_version_of_input(TapeValueId value);
  // A value in transfer is used, so its data has arrived, if it is not in flight. See Note
  // [Transfers].
  void note_arrival(TapeValueId value, const at::Tensor& tensor) {
    if (info_[value].is_in_transfer) {
      settle_transfer(value, tensor);
    }
  }
  // Returns whether wait_tensor() has still to be called for it.
  bool is_in_flight(TapeValueId value) const;

  // Returns the tape input of that value; null if it is none.
  Tape::Given* input(TapeValueId value) {
    if (!info_[value].is_given) {
      return nullptr;
    }
    const auto found = tape_.given.find(value);
    return found == tape_.given.end() ? nullptr : &found->second;
  }
  // The tape inputs from outside, in the order of their first reads.
  const std::vector<TapeValueId>& outside() const { return outside_; }

  // Retains the value for replays. is_in_flight: see Note [Transfers].
  void keep(TapeValueId value, const at::Tensor& tensor, std::shared_ptr<ActivationStore> store,
            bool is_in_flight);
  // Moves a retained value to its store, except for memory that is still to be filled: an operator
  // may fill it without counting a write (the noise of rrelu), and a store that has seen the memory
  // before would not look again.
  void put_away(TapeValueId value);
  void forget(TapeValueId value) { tape_.given.erase(value); }

  // The decision for the last operator has been made. results: its own.
  void note_last(c10::ArrayRef<c10::IValue> results);
  // See Note [Frontier]. is_over: forward has ended.
  void advance_frontier(bool is_over) { frontier_.advance(is_over); }
  // Releases some of these values, which autograd has not saved, if they are larger than those that
  // the region drops. Returns whether it has released any.
  bool drop_excess(std::vector<TapeValueId> values) {
    return frontier_.drop_excess(std::move(values));
  }
  void set_unknown_readers(bool has_unknown) { frontier_.set_unknown_readers(has_unknown); }
  // Returns whether replays are supplied with all that the operator makes and writes.
  bool is_served(TapeOperatorId index) const;

  // Calls `visitor` with each memory that the region has met, and its present value.
  void for_each_memory(const auto& visitor) const {
    for (const MemoryId id : memories_.ids()) {
      if (memories_[id].current != Tape::kNone) {
        visitor(memory_[id], memories_[id].current);
      }
    }
  }

 private:
  void settle_transfer(TapeValueId value, const at::Tensor& tensor);
  TapeValueId add(StorageId memory, const at::Tensor& tensor, Tape::Value value, bool is_outside);
  void note_reads(const Tape::Operator& op);

  Tape& tape_;
  TapeTables& tables_;
  MemoryTable& memory_;
  const Options options_;
  base_internal::IdVector<MemoryId, Memory> memories_;
  base_internal::IdVector<TapeValueId, Info> info_;
  std::vector<TapeValueId> outside_;
  SavedFrontier frontier_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_TAPE_VALUES_H_
