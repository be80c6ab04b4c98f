// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Writes a step down as a trace: called when operators and nodes begin and end, when memory is
// allocated and freed, and when autograd saves and reads tensors.
//
// Note [When the program releases a value]: a plan has to know until when the program itself holds
// a value, though autograd holds it as well. Autograd's references are those that the pack hook has
// returned, so a storage that has no others has been released by the program. This is looked up
// when the next operator or node begins, and at the end.
#ifndef REPRISE_ENGINE_PROFILE_STEP_RECORDER_H_
#define REPRISE_ENGINE_PROFILE_STEP_RECORDER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/operators/runs_once.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

class StepRecorder {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();

  // Sets the clock of all recorders. For tests, whose plans must not follow the machine's load. The
  // default is Clock::now.
  static void set_clock(Now now);

  explicit StepRecorder(c10::Device device) : device_(device) {}

  c10::Device device() const { return device_; }

  // From now on, each operator of forward is recorded with the stack of the code that calls it.
  void record_stacks() { records_stacks_ = true; }

  // An operator of forward, or one outside of backward's nodes.
  void begin_operator(const std::string& name, RunsOnce once, const std::vector<at::Tensor>& reads);
  // `written`: the tensors that it has modified in place. once: as its results show.
  void end_operator(const std::vector<at::Tensor>& written, RunsOnce once);
  // The operator that has made the value in the tensor, if one has, is one that runs once.
  void note_once(const at::Tensor& tensor, RunsOnce once);
  // Returns the time of the last one.
  double last_seconds() const;

  // A node of backward. Nodes of a backward inside another one count as part of it.
  void begin_node(const std::string& name);
  void end_node();
  bool is_in_node() const;

  void allocated(const void* block, std::int64_t bytes, std::int64_t total_bytes);
  // Not by the step: to free the block is no part of it, either.
  void allocated_elsewhere(const void* block);
  void freed(const void* block, std::int64_t bytes);
  // Returns whether an operator or node is running.
  bool is_running() const;

  // The tensor, made in a pause, holds the value as well.
  void supplied(planner::ValueId value, const at::Tensor& tensor);
  // Returns the values that an operator of forward has read when only autograd held them.
  absl::flat_hash_set<planner::ValueId> read_for_gradients() const;
  // Returns the last operator.
  planner::OperatorId last_operator() const;

  // Until resume(), what happens is no part of the step: a recomputation, or an eviction. Calls
  // nest.
  void pause();
  void resume();

  // Returns the value in the tensor; planner::kNone if no operator of the step has made it.
  planner::ValueId value_of(const at::Tensor& tensor) const;
  // The program has let go of the value, which something besides autograd still holds.
  void note_release(planner::ValueId value);

  // Autograd saves `tensor`. Returns the value in it.
  planner::ValueId saved(const at::Tensor& tensor);
  // Autograd reads it again, and at last lets go of its tensor.
  void read(planner::ValueId value);
  void dropped(const at::Tensor& tensor);

  // Returns the trace of forward so far, without the nodes that have run since.
  planner::Trace trace_of_forward();
  // Returns the nodes that have run, with the bytes that each has needed as its workspace.
  std::vector<planner::Operator> ended_nodes() const;
  // Returns the trace. Blocks and nodes of other threads may still be reported: without effect.
  planner::Trace finish();

 private:
  struct Allocation {
    const void* block;
    std::int64_t bytes;
  };
  // Memory that autograd holds tensors of.
  struct SavedBlock {
    c10::StorageImpl* storage;  // alive as long as they are
    std::size_t references;     // of autograd
  };

  planner::OperatorId current() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<planner::OperatorId>(trace_.operators.size()) - 1;
  }
  void begin(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void end() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void begin_backward() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_rest(const std::string& name, planner::OperatorId first)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void take_over(const at::Tensor& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void note_releases() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_memory_before(planner::Trace& trace) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void hold(planner::ValueId value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  planner::ValueId value_in(const at::Tensor& tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  planner::ValueId add_value_from_outside(planner::Value value, const void* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  planner::ValueId add_value(planner::Value value, const void* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void add_read(planner::ValueId value) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Clock::time_point now();
  static double seconds_since(Clock::time_point start);

  const c10::Device device_;
  mutable Mutex mutex_;
  planner::Trace trace_;
  std::vector<bool> is_from_outside_;                          // by value
  absl::flat_hash_set<planner::ValueId> read_for_gradients_;   // in forward
  absl::flat_hash_map<const void*, planner::ValueId> values_;  // in memory now, by block
  absl::flat_hash_map<const void*, SavedBlock> saved_;
  std::vector<Allocation> allocations_;  // of the operator that runs
  bool records_stacks_ = false;
  bool is_finished_ = false;
  bool is_running_ = false;
  bool is_in_backward_ = false;
  int node_depth_ = 0;
  int pauses_ = 0;
  Clock::time_point pause_start_;
  absl::flat_hash_set<const void*> not_of_step_;  // blocks allocated in pauses, or elsewhere
  std::int64_t bytes_before_ = -1;                // the step; negative: not known yet
  std::int64_t live_bytes_ = 0;                   // allocated since then, less what has been freed
  std::int64_t live_at_begin_ = 0;                // of the operator that runs
  std::int64_t live_at_most_ = 0;                 // since then
  Clock::time_point start_ = now();               // of the step, or of backward
  Clock::time_point operator_start_ = now();
  double last_seconds_ = 0;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_PROFILE_STEP_RECORDER_H_
