// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Records a step that runs within a memory budget as a trace of the plain step: recomputation and
// evictions are left out.
#ifndef REPRISE_ENGINE_BUDGET_STEP_RECORDING_H_
#define REPRISE_ENGINE_BUDGET_STEP_RECORDING_H_

#include <ATen/record_function.h>

#include <memory>
#include <thread>

#include "reprise/engine/profile/step_recorder.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Begins on forward's thread. At most one at a time in the process.
class StepRecording {
 public:
  // Returns null while another step is recorded.
  static std::shared_ptr<StepRecording> begin();
  // Returns the recording in progress, or null.
  static std::shared_ptr<StepRecording> now();
  // Returns the recording that the calling thread works for; null if there is none.
  static std::shared_ptr<StepRecording> of_this_thread();

  ~StepRecording();
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;

  StepRecorder& recorder() { return recorder_; }

  // The step has ended: returns its trace. To be called once, on any thread.
  planner::Trace finish();

 private:
  StepRecording();
  void end();

  StepRecorder recorder_;
  const std::thread::id thread_ = std::this_thread::get_id();
  at::CallbackHandle nodes_ = 0;
  bool is_ended_ = false;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_RECORDING_H_
