// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes the tape of a region's forward.
//
// Note [What is not on the tape]: views, and operators that make or write no storage of the region.
// A write to a tensor from outside is an effect: it happens once, and its outcome is a tape input.
// If the region has read the earlier contents, they are copied first. A storage of the region that
// is written outside the dispatcher counts as one from outside from then on.
//
// Note [Gradients of gradients]: of a backward inside the region, whose gradients are to have
// gradients (create_graph), the operators are the region's like any other: they have a graph, which
// saves their results, and a replay runs them again. A tensor that this backward receives may have
// been recomputed: its memory holds the same value as forward's.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_TAPE_RECORDER_H_
#define REPRISE_ENGINE_TAPE_RECORDING_TAPE_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "reprise/engine/checks/saved_statistics.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/policy/policy_region.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/engine/tape_recording/pending_writes.h"
#include "reprise/engine/tape_recording/refilled_reads.h"
#include "reprise/engine/tape_recording/tape_lookup.h"
#include "reprise/engine/tape_recording/tape_tables.h"
#include "reprise/engine/tape_recording/tape_values.h"
#include "reprise/engine/tape_recording/tape_writer.h"
#include "reprise/engine/watch/memory_sample.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class TapeRecorder final : public TapeWriter {
 public:
  struct Options {
    bool preserves_rng = true;
    bool is_nested = false;      // in another region, whose hooks pack the inputs
    bool through_hooks = false;  // results that the policy saves
    std::shared_ptr<ActivationStore> input_store = nullptr;
    bool needs_transfers = false;              // all collectives are run again, needed or not
    bool follows_parameters = false;           // read as they are at the time of a replay
    std::int64_t state_limit_bytes = 0;        // see TapeLookup
    SavedStatistics* statistics = nullptr;     // see RegionRecord
    std::shared_ptr<TapeRetention> retention;  // decides instead of a policy, if it plans
  };

  // next: the interceptor further out, or null. Must outlive this, as must the options, and those
  // that PolicyRegion names.
  TapeRecorder(Tape& tape, MemoryTable& memory, std::shared_ptr<Policy> policy,
               const std::string& region, const Options& options, OperatorInterceptor* next,
               PolicyRegion* enclosing);

  void intercept(const OperatorCall& call) override;
  // Returns whether parts of the tensor were never set, as in a workspace: its values are
  // meaningless.
  bool is_unset(const at::Tensor& tensor) const;

  // See TapeValues.
  void add_supplied(const Tape::Tensor& place, const at::Tensor& tensor) {
    values_.add_supplied(place, tensor);
  }

  // Returns the place on the tape of a tensor that autograd saves now.
  Tape::Tensor slot(const at::Tensor& tensor, bool is_input);

  // Forward has ended: reduces the tape to the part that live slots need. Tensors from outside go
  // to the surrounding saved-tensor hooks if may_pack. stats: is added to, unless null.
  void complete(const SlotSet& alive, bool may_pack, RegionStats* stats);

 private:
  using Use = TapeLookup::Use;
  static Use use_of_targets(const OperatorCall& call) {
    return call.traits.overwrites ? Use::kOverwritten : Use::kChanged;
  }

  // Of the outermost operator on tensors of classes of the embedding language that runs.
  struct Wholes {
    int depth = 1;  // with such operators inside
    bool are_written = false;
    std::vector<at::Tensor> arguments;
    absl::flat_hash_map<StorageId, std::size_t> of_parts;  // among these
  };

  // Arguments.
  // memory: of the tensors, to which these add. Return whether a replay can run the operator.
  bool encode_arguments(const OperatorCall& call, StorageIdList& memory);
  bool encode(const OperatorCall& call, const c10::IValue& argument, Use use,
              StorageIdList& memory);
  void encode_tensor(const OperatorCall& call, const at::Tensor& tensor, Use use,
                     StorageIdList& memory);
  std::uint8_t place_of_same(const OperatorCall& call, const at::Tensor& tensor,
                             const Tape::Tensor& recorded) const;

  // Tensors of classes of the embedding language: see Note [Assembled tensors]. In
  // tape_recorder_parts.cpp.
  // Returns false for an operator to be recorded as any other; otherwise it has run.
  bool run_parts(const OperatorCall& call);
  void enter_whole(const OperatorCall& call, std::vector<at::Tensor> arguments);
  // Returns the operator's argument that the tensor is a part of; undefined if there is none.
  at::Tensor whole_of(const at::Tensor& tensor) const {
    return wholes_ == nullptr ? at::Tensor() : find_whole(tensor);
  }
  at::Tensor find_whole(const at::Tensor& tensor) const;
  void note_whole(TapeValueId value, const at::Tensor& whole);
  bool is_made_here(const at::Tensor& part) const;
  std::optional<Tape::Tensor> assemble(const at::Tensor& tensor);

  // Storages and values.
  // state: see OperatorInterceptor::state_before().
  bool is_of_other_graph() const;
  TapeLookup::Found look_up(const at::Tensor& tensor, Use use, const at::Tensor& state = {},
                            const at::Tensor& whole = {});
  Tape::Tensor save(const at::Tensor& tensor);

  // Operators.
  void run_next(const OperatorCall& call) { options_.retention->run(call, next(), lookup_.once()); }
  void run_unseen(const OperatorCall& call);
  void run_reshaping(const OperatorCall& call, const std::vector<Written>& written);
  // call: here and below, null if the operator has run already.
  void prepare_unseen_write(const OperatorCall* call, Written write);
  void leave_out(const Tape::Operator& op);
  std::vector<Written> written_by(const OperatorCall& call);
  void settle_targets();
  // Replays write to memory of their own.
  bool is_inside(const Written& write) const {
    return write.is_refill || !values_.is_outside(write.memory);
  }
  void give_instead(TapeValueId value, TapeValueId other);
  void prepare_writes(const OperatorCall& call, std::vector<Written>& written);
  void prepare_refill(const OperatorCall& call, Written& write);
  void prepare_write_outside(const OperatorCall* call, const Written& write, bool is_run_again,
                             bool is_read_by_it);
  bool commit(const OperatorCall& call, Tape::Operator& op, const std::vector<Written>& written,
              const StorageIdList& arguments);
  void note_lost(const Written& write);
  void note_writes(const OperatorCall& call, const std::vector<Written>& written,
                   bool is_run_again);

  // Decisions of a TapeRetention.
  void retain_last(const OperatorCall& call, const std::vector<Written>& written);
  void apply(const TapeRetention::Result& result);
  void retain_saved(const at::Tensor& tensor, TapeValueId value);
  void note_refillable(const TapeLookup::Found& found, Use use, const at::Tensor& tensor);

  // Completion, in tape_recorder_completion.cpp.
  void give_inputs(const TapeValueSet& needed, const TapeValueSet& otherwise, bool may_pack);
  void give_kept(const TapeValueSet& needed, bool may_pack);
  void complete_refilled(const TapeValueSet& needed);
  void report(const TapeValueSet& needed, RegionStats& stats) const;

  const bool is_planned_;  // options_.retention->plans(), asked once
  TapeLookup lookup_;
  RefilledReads refilled_;  // of planned tapes
  const std::string& region_;
  const Options& options_;
  std::uint32_t calls_ = 0;
  std::uint32_t first_argument_now_ = 0;
  std::vector<TapeValueId> saved_now_;  // read only by slots saved since the last operator
  std::vector<TapeValueId> read_now_;   // for the first time, by the operator that runs
  std::unique_ptr<Wholes> wholes_;      // null: no such operator runs
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_TAPE_RECORDER_H_
