// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes the tape of a function region's forward under a policy.
//
// Note [Constants]: results that depend on no tensor and no random number, such as from zeros(),
// are not retained. Such memory is often filled through a pointer next, and a replay that received
// the filled memory would fill it twice.
//
// Note [Parts]: a tensor of a class of another language (DTensor, a jagged tensor) has its elements
// in other tensors. Operators reach the tape with the tensor itself or with its parts: see Note
// [Python's key]. What autograd saves is the tensor, so that its parts are saved as well; a class
// that does not name them may have any value of the region as one. So may a class of C++ that wraps
// other tensors, saved or not: its operators read them unseen. Nothing can stand for a result of
// such a class: its operator is supplied or runs.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_FUNCTION_RECORDER_H_
#define REPRISE_ENGINE_TAPE_RECORDING_FUNCTION_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/report/region_stats.h"
#include "reprise/engine/tape/function_tape.h"
#include "reprise/engine/tape_recording/tape_writer.h"
#include "reprise/engine/watch/watched_forward.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class FunctionRecorder final : public TapeWriter {
 public:
  // watched: is written by the next interceptor, and numbers the operators. The other arguments are
  // those of TapeWriter.
  FunctionRecorder(FunctionTape& tape, WatchedForward& watched, std::shared_ptr<Policy> policy,
                   const std::string& region, bool preserves_rng, OperatorInterceptor* next,
                   PolicyRegion* enclosing);

  void intercept(const OperatorCall& call) override;

  // Returns the value of a tensor that autograd saves now; none if the region has not made it.
  Tape::Tensor slot(const at::Tensor& tensor);
  // A backward inside the region saves it on another thread: a replay needs its contents.
  void note_saved_elsewhere(const at::Tensor& tensor);
  // A replay needs the contents of `memory`: they are used outside the dispatcher.
  void note_read_by_host(const void* memory) override { need(memory); }
  void decide_last(const PolicyAnswer& answer, c10::ArrayRef<c10::IValue> results) override;

  // Forward has ended. wanted: the slots that backward may ask for. may_pack: retained results may
  // go to their store or to the surrounding hooks, which may throw. stats: is added to, unless
  // null.
  void complete(const SlotSet& wanted, bool may_pack, RegionStats* stats);

 private:
  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  bool is_inside(StorageId memory) const { return values_.find(memory) != nullptr; }
  void need(StorageId memory);
  void need_parts(const at::Tensor& tensor);

  // The operator that runs.
  void note_wrappers(const OperatorCall& call);
  StorageIdList note_arguments(const OperatorCall& call, Tape::Operator& op);
  void prepare_writes(const OperatorCall& call, Tape::Operator& op, std::vector<Written>& written);
  // Returns whether the operator is on the tape.
  bool note_outcome(const OperatorCall& call, Tape::Operator& op,
                    const std::vector<Written>& written, const StorageIdList& arguments);
  void note_made(const OperatorCall& call, TapeValueId value, const at::Tensor& tensor) override;
  void note_write(const OperatorCall& call, Written write, const StorageIdList& arguments);
  bool has_writes(TapeOperatorId op) const {
    return tape_.operators[op].first_write < tape_.operators[op].end_write;
  }

  // When forward has ended.
  TapeValueSet needed_at_end(const SlotSet& wanted) const;
  void need_dead_ends(TapeValueSet& needed);
  bool has_hidden_writes(const TapeValueSet& needed) const;
  void drop_excess(TapeValueSet& needed, TapeOperatorSet& runs);
  // Returns the operators that run.
  TapeOperatorSet find_needed(TapeValueSet& needed) const;
  bool is_kept(TapeValueId value) const { return tape_.given.contains(value); }
  void release_unused(const ReplayActions& actions, const TapeValueSet& needed);

  FunctionTape& function_;
  const WatchedForward& watched_;
  const bool preserves_rng_;
  const bool may_share_results_;  // with a region around
  PolicyRegion* const enclosing_;
  bool has_unknown_parts_ = false;  // see Note [Parts]
  // Results that the code has received, if there may be other owners.
  absl::flat_hash_map<TapeValueId, WeakTensor> owned_by_others_;

  // Of the operator that runs.
  bool is_lone_write_now_ = false;  // its only result is its only target
  bool is_resizing_now_ = false;    // the target
  bool can_keep_now_ = false;       // its results can be supplied
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_FUNCTION_RECORDER_H_
