// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The decision which values of a tape are retained, in place of a policy.
//
// Note [Planned tapes]: a plan counts each byte, so a replay of such a tape does what the plan says
// and nothing of its own accord. A value is freed as soon as the request is met that it was
// computed for, unless the plan retains it; the slots of one node are one request. No retained
// value gives way to another one, and no recomputation is deferred. All operators that a retained
// value depends on stay on the tape, so that each can be evicted.
#ifndef REPRISE_ENGINE_TAPE_TAPE_RETENTION_H_
#define REPRISE_ENGINE_TAPE_TAPE_RETENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/runs_once.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::engine_internal {

// One step's decisions. Forward's functions are called on its thread, the others on those of
// backward. This class decides nothing: a policy does in forward, and a replay retains a value
// until its last use.
class TapeRetention {
 public:
  // A value that an operator has made or written.
  struct Result {
    TapeValueId value;
    at::Tensor tensor;  // in its memory
    std::int64_t bytes;

    // The answer. 0: retained in forward; otherwise see planner::Choice.
    std::uint8_t retained_from = 1;
    std::shared_ptr<ActivationStore> store = nullptr;  // for a retained value, or null
  };

  TapeRetention() = default;
  TapeRetention(const TapeRetention&) = delete;
  TapeRetention& operator=(const TapeRetention&) = delete;
  virtual ~TapeRetention() = default;

  // Returns one that decides nothing.
  static std::shared_ptr<TapeRetention> none() {
    static const auto kNone = std::make_shared<TapeRetention>();
    return kNone;
  }

  // Returns whether the tape is planned.
  virtual bool plans() const { return false; }

  // Another operator is about to run. May free values that the plan computes again.
  virtual void before_operator(Tape& /*tape*/) {}
  // Runs it, through `next` unless that is null. once: why no replay can run it.
  virtual void run(const OperatorCall& call, OperatorInterceptor* next, RunsOnce /*once*/) {
    pass_on(call, next);
  }
  // Of planned tapes: returns whether the tensor from outside, which operator number `ordinal` of
  // forward reads at this place among its arguments, is to be copied for replays.
  virtual bool copies(const c10::OperatorHandle& /*op*/, std::uint32_t /*ordinal*/,
                      std::uint32_t /*place*/, const at::Tensor& /*tensor*/) const {
    return false;
  }
  // Of planned tapes: `op` has run and is on the tape. May set op.seconds and op.bytes.
  virtual void decide(Tape::Operator& /*op*/, std::span<Result> /*results*/) {}
  // Returns whether a tensor that autograd saves now is retained, whatever was decided for it.
  virtual bool retains_saved(const at::Tensor& /*tensor*/) const { return false; }
  // Of planned tapes: from now on the value in `tensor` is not computed again, for what that reads
  // is out of reach. Returns whether it is retained, though another decision was made.
  virtual bool note_made_once(TapeValueId /*value*/, const at::Tensor& /*tensor*/) { return false; }
  // Returns whether recomputed tensors stay for the next backward through the same graph, until
  // their memory is needed. See Note [Shared tensors].
  virtual bool keeps_supplied() const { return false; }

  // The values that a node of backward will read. sequence: the node's number on forward's thread.
  struct NodeReads {
    std::uint64_t sequence;
    std::vector<TapeValueId> values;
  };
  // Forward has ended. nodes: returns the nodes that read values, in the order of backward.
  using ReadsOfNodes = std::vector<NodeReads>;
  virtual void end_forward(absl::FunctionRef<ReadsOfNodes()> /*nodes*/) {}

  // Of backward: once per session that asks for a tensor; before each tensor that it reads, which
  // may throw; around each recomputation.
  virtual void begin_backward(const Tape& /*tape*/) {}
  // Called next: may plan what is left of the step, and free values that the plan computes again.
  // Returns whether it has planned.
  virtual bool plan_backward(Tape& /*tape*/) { return false; }
  virtual void end_backward() {}
  virtual void note_read(TapeValueId /*value*/) {}
  // Of a backward inside the region, which receives `tensor`: the value, computed again.
  virtual void note_supplied(TapeValueId /*value*/, const at::Tensor& /*tensor*/) {}
  // A replay has found memory changed, and is about to throw. Returns the end of the message: what
  // to do.
  virtual std::string_view note_mutation(Tape& /*tape*/) {
    return ". Change a clone instead, or set allow_external_mutation to accept the new values";
  }
  virtual void begin_replay() {}
  virtual void end_replay() {}

  // Of a recomputation, and may throw: before each operator, whose inputs are pinned; and when it
  // has what was asked for.
  virtual void before_recomputed(const Tape::Operator& /*op*/) {}
  virtual void after_recomputed() {}
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_RETENTION_H_
