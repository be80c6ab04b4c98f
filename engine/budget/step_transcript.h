// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A step within a budget as it is written down: its trace, and which values of the trace the
// operators of its tape make.
#ifndef REPRISE_ENGINE_BUDGET_STEP_TRANSCRIPT_H_
#define REPRISE_ENGINE_BUDGET_STEP_TRANSCRIPT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/budget/step_recording.h"
#include "reprise/engine/budget/step_script.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/hooks/seam/backward_scope.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Of forward's thread until end_forward(), then one thread of backward at a time.
class StepTranscript {
 public:
  explicit StepTranscript(std::shared_ptr<StepRecording> recording)
      : recording_(std::move(recording)) {}

  StepRecorder& recorder() { return recording_->recorder(); }

  // The program has let go of values that nothing but the tape holds.
  void note_releases(const Tape& tape);
  // Forward has ended: what other code than operators has filled cannot be computed again.
  void note_out_of_sight(const Tape& tape);
  // An operator has run, and has taken `bytes` at once. Returns its time in seconds.
  float add(const Tape::Operator& op, std::span<const TapeRetention::Result> results,
            std::int64_t bytes);
  // See TapeRetention.
  void note_made_once(TapeValueId value, const at::Tensor& tensor);
  void end_forward(TapeRetention::ReadsOfNodes nodes);
  void note_read(TapeValueId value);

  // Returns whether the nodes of the backward that runs now are recorded.
  bool observes_backward() const { return recording_->observes_backward(); }

  // A backward through these nodes begins. Returns the step as it is to be expected, with the
  // values that `tape` no longer holds as evicted, and with nodes that another backward will come
  // to at the end; nothing if other threads have disturbed the recording. thread: of forward, in
  // LibTorch's numbers.
  std::optional<planner::Trace> foresee(const std::vector<hooks_internal::BackwardNode>& nodes,
                                        std::uint64_t thread, const Tape& tape);
  // Returns the step as it is to be expected now: with the nodes that have run as they were.
  // Nothing if other threads have disturbed the recording.
  std::optional<planner::Trace> expected();
  // Returns the value of the trace in a value of the tape; planner::kNone if there is none.
  planner::ValueId value_of(TapeValueId value) const {
    return values_.contains(value) ? values_[value] : planner::kNone;
  }

  // Returns the step; nothing if other threads have disturbed the recording. To be called once.
  // keeps_graph: another backward will read the same tensors.
  std::optional<RecordedStep> finish(RecordedBackward backward, bool keeps_graph);

 private:
  planner::Trace expected_from_reads();
  void append_reading_nodes(planner::Trace& trace) const;
  void note_reads_for_gradients(const planner::Trace& trace,
                                const absl::flat_hash_set<planner::ValueId>& read);
  std::vector<bool> gone_values(const planner::Trace& trace, const Tape& tape) const;
  void mark_lost(planner::Trace& trace, const Tape& tape) const;
  std::vector<planner::ValueId> values_of(const TapeRetention::NodeReads& node) const;

  std::shared_ptr<StepRecording> recording_;
  StepScript script_;
  std::vector<planner::OperatorId> operators_;  // of the trace, by call
  base_internal::IdVector<TapeValueId, planner::ValueId> values_;
  TapeRetention::ReadsOfNodes nodes_;       // that backward will come to
  std::optional<planner::Trace> forecast_;  // once a backward's nodes are known
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_TRANSCRIPT_H_
