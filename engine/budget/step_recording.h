// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Records a step that runs within a memory budget as a trace of the plain step: recomputation and
// evictions are left out.
#ifndef REPRISE_ENGINE_BUDGET_STEP_RECORDING_H_
#define REPRISE_ENGINE_BUDGET_STEP_RECORDING_H_

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "reprise/engine/allocation/memory_source.h"
#include "reprise/engine/profile/step_recorder.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Begins on forward's thread. At most one at a time in the process.
class StepRecording final : public BlockObserver {
 public:
  // Returns null while another step is recorded, or if the thread's blocks cannot be observed.
  static std::shared_ptr<StepRecording> begin(MemorySource& source);
  // Returns the recording in progress, or null.
  static std::shared_ptr<StepRecording> now();
  // Returns the recording that the calling thread works for; null if there is none.
  static std::shared_ptr<StepRecording> of_this_thread();

  ~StepRecording() override;
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;

  StepRecorder& recorder() { return recorder_; }

  // One inside the scope is part of it.
  void end_forward() { is_in_forward_ = false; }
  bool is_in_forward() const { return is_in_forward_; }

  // Another step has begun. What the thread does until backward begins is taken to be others'.
  void pause_until_backward();
  // Returns whether another step in flight has made the node, in LibTorch's numbers.
  using IsOfOthers = std::function<bool(std::uint64_t thread, std::uint64_t sequence)>;
  // Its nodes will be reported. Adds what forward's thread has allocated since the end of the
  // scope: backward's first gradient. is_of_others: of a backward through several steps, whose
  // other nodes are not part of this one; or null.
  void begin_backward(IsOfOthers is_of_others);
  // Returns whether one has begun whose nodes are reported.
  bool observes_backward() const { return observes_backward_; }

  // Of a backward's nodes, on the threads that evaluate them.
  void begin_node(const at::RecordFunction& node);
  void end_node();

  void allocated(const void* block, std::int64_t bytes, std::int64_t bytes_in_use) override {
    recorder_.allocated(block, bytes, bytes_in_use);
  }
  void freed(const void* block, std::int64_t bytes) override { recorder_.freed(block, bytes); }

  // Of a source that reports the blocks of all threads.
  void allocated_on_any_thread(const void* block, std::int64_t bytes, std::int64_t bytes_in_use);

  // The step has ended: returns its trace. To be called once, on any thread.
  planner::Trace finish();

 private:
  explicit StepRecording(MemorySource& source) : source_(source), recorder_(source.device()) {}
  bool is_on_its_thread() const;
  void end();

  MemorySource& source_;
  StepRecorder recorder_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::atomic<bool> is_in_forward_ = true;
  std::atomic<bool> observes_backward_ = false;
  IsOfOthers is_of_others_;  // of the last backward
  bool is_paused_ = false;   // until backward
  bool is_ended_ = false;
};

// While alive, a recording in progress on this thread does not see what the thread does: that
// belongs to another step.
class PausedRecording {
 public:
  PausedRecording();
  ~PausedRecording();
  PausedRecording(const PausedRecording&) = delete;
  PausedRecording& operator=(const PausedRecording&) = delete;

 private:
  std::shared_ptr<StepRecording> recording_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_RECORDING_H_
