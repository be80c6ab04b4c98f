// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The part of a tape's recording that scopes and function regions share: the values that operators
// make, and write to, in memory of the region, and the results that a policy saves.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_TAPE_WRITER_H_
#define REPRISE_ENGINE_TAPE_RECORDING_TAPE_WRITER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "reprise/base/threading/size_hint.h"
#include "reprise/engine/operators/chained_interceptor.h"
#include "reprise/engine/operators/memory_table.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/operators/random_draw.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/policy/policy_region.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/tape_recording/pending_writes.h"
#include "reprise/engine/tape_recording/tape_tables.h"
#include "reprise/engine/tape_recording/tape_values.h"

namespace reprise::engine_internal {

// Base of the two recorders. Lives as long as forward, on its thread.
class TapeWriter : public ChainedInterceptor, public DecisionTarget {
 public:
  // memory: numbers it. next: the interceptor further out, or null. All must outlive this, as must
  // those that PolicyRegion names.
  TapeWriter(Tape& tape, MemoryTable& memory, std::shared_ptr<Policy> policy,
             const std::string& region, TapeValues::Options options, OperatorInterceptor* next,
             PolicyRegion* enclosing);

  PolicyRegion& policy_region() { return policy_region_; }
  bool is_on_its_thread() const { return std::this_thread::get_id() == thread_; }

  std::optional<Decision> decision_of_creator(const at::Tensor& tensor) override;
  Decision last_decision() override;
  bool has_last_written() const override;
  void decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) override;
  bool keep_value(const at::Tensor& tensor, const PolicyAnswer& answer) override;
  void recompute_value(const at::Tensor& tensor, CheckpointPolicy decision) override;

 protected:
  // A target of the operator that runs.
  struct Written {
    StorageId memory;
    at::Tensor tensor;
    TapeValueId before;
    TapeValueId scratch = {};  // of a refill, see prepare_refill(): what the operator is given
    bool is_refill = false;    // see Note [Refilled memory]
    bool is_arrival = false;   // readers of the earlier contents mean these
    bool follows = true;       // a retained result is retained as of after the write
  };

  // The last operator has returned, and autograd has counted its writes. is_part: see
  // PendingWrites.
  void note_versions(bool is_part = false);
  // Forward has ended, and the tape has all operators.
  void end_recording();
  // The tape has seen each write of the region, so an unknown version has been counted without a
  // write, as by mark_dirty().
  void note_final_versions();

  // The operator that runs has this target.
  void note_target(const at::Tensor& tensor, TapeValueId value);
  void prepare_write_inside(Written& write);
  // A result that the policy has put into a store stays as it is.
  void prepare_stored(const Written& write);
  // The operator that runs, and that comes next on the tape, has made its results, and written to
  // memory of the region. arguments: the memory of its arguments.
  void note_results(const OperatorCall& call, const StorageIdList& arguments);
  // Called by these for each value that they add as a result.
  virtual void note_made(const OperatorCall& /*call*/, TapeValueId /*value*/,
                         const at::Tensor& /*tensor*/) {}
  void note_write_inside(const OperatorCall& call, const Written& write);
  // Ends the operator: its range of results and writes.
  void push_operator(const Tape::Operator& op);
  // Adds the draw of the operator that has run, and is on the tape, if it has drawn.
  void note_draw(std::optional<RandomDraw> draw, const OperatorTraits& traits);
  std::optional<RandomDraw> begin_draw(const OperatorCall& call, bool preserves_rng);

  // Forward has ended, without an exception, and the tape has all operators: tells the policy.
  void end_policy(const SlotSet& alive);

  // Retains the value, which is in the memory of `tensor`.
  void keep(TapeValueId value, const at::Tensor& tensor, std::shared_ptr<ActivationStore> store);
  // Retained values that have been freed, or written through a pointer, are computed again. Returns
  // whether there were any of the latter. with_stored: those in stores as well.
  bool forget_lost(bool with_stored);
  // Passes retained values to their stores, or, if through_hooks, to the surrounding hooks.
  void give_kept(bool through_hooks);
  // The retained bytes, and the others, that each operator has made.
  void report_operators(const TapeValueSet& needed, RegionStats& stats) const;

  Tape& tape_;
  TapeTables tables_;
  TapeValues values_;
  PendingWrites pending_writes_;
  PolicyRegion policy_region_;
  const int backward_;  // the backward in which the region runs, or -1
  bool has_transfers_ = false;

  // Of the operator that runs.
  bool arrives_later_now_ = false;  // its results: no store may read them yet
  bool samples_now_ = false;        // its results on the CPU are complete when it ends
  std::vector<Written> targets_now_;

 private:
  static constinit thread_local base_internal::SizeHint t_operators_;
  static constinit thread_local base_internal::SizeHint t_values_;

  Decision decision_of(TapeOperatorId index);
  static bool stays_factorys(const TapeValues::Info& before, const TapeValues::Info& now,
                             const at::Tensor& written);

  const std::thread::id thread_ = std::this_thread::get_id();
  DrawRecorder draws_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_TAPE_WRITER_H_
