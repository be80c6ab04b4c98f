// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The value of the tape that a tensor's memory holds, and the detection of writes outside the
// dispatcher.
//
// Note [Out of sight]: a value whose version is not the one that its operator left has been written
// by another thread, whose operators the tape does not see. Memory from empty() that is read before
// operators have filled it has been filled through a pointer. Other results on the CPU are sampled,
// and compared when they are read, saved, or partly overwritten. Results made of constants alone,
// as by zeros_like(), are made to be filled, and compared as a whole; on a device, where a
// comparison would have to synchronise, they count as filled when they are read. A value that was
// found to be written is a tape input from then on. Slots that look at it hold the written
// contents, as SavedVariables do without checkpointing.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_TAPE_LOOKUP_H_
#define REPRISE_ENGINE_TAPE_RECORDING_TAPE_LOOKUP_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "reprise/engine/operators/runs_once.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_recording/pending_writes.h"
#include "reprise/engine/tape_recording/tape_tables.h"
#include "reprise/engine/tape_recording/tape_values.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class TapeLookup {
 public:
  // The use of a tensor by an operator, which reads it, copies the part of a tensor into another
  // part, or writes to it; or by autograd, which saves it. A target is modified or overwritten.
  // Statistics that an operator reads are copied.
  enum class Use : std::uint8_t {
    kRead,
    kReadStatistics,
    kCopiedWithin,
    kSaved,
    kChanged,
    kOverwritten
  };
  static bool is_read(Use use) { return use < Use::kChanged; }

  struct Found {
    Tape::Tensor tensor;
    StorageId memory = nullptr;  // as of TapeValues::key_of()
    bool is_first_read = false;
    bool is_refillable = false;  // memory of which there is no copy: see refillable_memory.h
  };

  // The copies of memory from outside that replays would find changed.
  struct Copies {
    std::int64_t bytes_left;  // for them
    bool of_refillable;       // also of memory that its owner fills again: no replay asks for that
  };

  // All must outlive this.
  TapeLookup(Tape& tape, TapeTables& tables, TapeValues& values, PendingWrites& pending_writes,
             Copies copies)
      : tape_(tape),
        tables_(tables),
        values_(values),
        pending_writes_(pending_writes),
        copies_(copies) {}

  // state: of a tensor that is read; see OperatorInterceptor::state_before(). whole: the tensor
  // that it is a part of, see Note [Assembled tensors], or undefined.
  Found find(const at::Tensor& tensor, Use use, const at::Tensor& state, const at::Tensor& whole);
  // Has replays receive a copy of the tensor's storage, or of `state`, if it is defined.
  void copy(Tape::Given& given, const at::Tensor& tensor, const at::Tensor& state);

  // Returns 0 for memory that cannot be sampled.
  static MemorySample sample_of(const at::Tensor& tensor, bool of_all_bytes) {
    return is_dense(tensor) ? sample_memory(tensor, of_all_bytes) : 0;
  }

  // An operator has begun. Whether it has read memory that the program writes to before backward,
  // and of which there is no copy.
  void start_operator() { once_ = RunsOnce::kNo; }
  RunsOnce once() const { return once_; }
  // The operator reads the value, from outside, that `tensor` holds: the program is known to write
  // to it before backward. It is copied, or the operator runs once, unless autograd saves it: of
  // saved tensors the program learns of such a write without regions, too.
  void note_rewritten(TapeValueId value, const at::Tensor& tensor);

 private:
  // known: the memory, if the region has met it; otherwise null. Likewise below.
  TapeValueId value_of(StorageId memory, const at::Tensor& tensor, const TapeValues::Memory* known,
                       Use use);
  // Of a tensor of a class of the embedding language, a view lies in the memory of another one, but
  // not its parts.
  bool is_view_of_other(const at::Tensor& tensor) const;
  // An operator reads the input: replays compare it. of_all_bytes: of those that may be written
  // unseen.
  void note_sample(TapeValueId value, const at::Tensor& tensor, bool of_all_bytes);
  // The owner of the memory may write to it or free it unseen: each state of it is copied.
  TapeValueId copy_non_owning(StorageId memory, const at::Tensor& tensor, const at::Tensor& state,
                              const TapeValues::Memory* known);
  // Memory from outside that the region has changed, and that an operator reads now: it will change
  // again in the next run of the region's code. Returns whether it is memory that its owner fills
  // again, and of which there is no copy.
  bool note_state_read(TapeValueId value, const at::Tensor& tensor);
  void copy_state(TapeValueId value, const at::Tensor& tensor);
  // A value from outside that has been modified since the region read it is a new value.
  TapeValueId check_unchanged(TapeValueId value, StorageId memory, const at::Tensor& tensor);
  bool is_written_out_of_sight(TapeValueId value, const at::Tensor& tensor, Use use) const;
  // A result that the policy retains in its own memory has been overwritten as well: it is
  // recomputed.
  TapeValueId written_out_of_sight(TapeValueId was, StorageId memory, const at::Tensor& tensor);
  // A write that version counters do not count is visible in the tensors that autograd has saved.
  TapeValueId replace(TapeValueId was, StorageId memory, const at::Tensor& tensor,
                      Tape::Given::Why why);

  Tape& tape_;
  TapeTables& tables_;
  TapeValues& values_;
  PendingWrites& pending_writes_;
  Copies copies_;
  RunsOnce once_ = RunsOnce::kNo;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_TAPE_LOOKUP_H_
