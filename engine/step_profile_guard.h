// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: step_profile_guard.h
//
// Records a training step as a trace: each operator of forward and each node of backward, with its
// time, the values that it reads and makes, and their bytes. A planner finds from it what to retain
// and what to recompute within a budget (planner.h), and `tools/plan` draws it.
//
// Not for timing kernels (use LibTorch's profiler), nor for a step with regions in it: their
// recomputation would count as part of backward.
//
// Example:
//
//   reprise::StepProfileGuard profile;
//   model->forward(x).square().mean().backward();
//   const reprise::planner::Trace trace = std::move(profile).finish();
//
// Thread-safety: a guard belongs to the thread that constructs it, and observes its operators and
// the threads of the backward that it calls.
#ifndef REPRISE_ENGINE_STEP_PROFILE_GUARD_H_
#define REPRISE_ENGINE_STEP_PROFILE_GUARD_H_

#include <c10/core/Device.h>

#include <memory>

#include "reprise/base/export.h"
#include "reprise/planner/trace.h"

namespace reprise {

namespace engine_internal {
class ProfiledStep;
}

// While alive, observes a plain step: forward, then one backward. The step computes what it would
// compute without the guard, and needs as much memory. Besides the tensors of `device`, memory that
// exists before the step counts as one value.
//
// Time: each operator of forward is intercepted (about a microsecond); tensors that autograd has
//   saved are looked through after each of them.
// Stream: with an accelerator as `device`, synchronises it before and after each operator and node.
class [[nodiscard]] REPRISE_API StepProfileGuard {
 public:
  // device: whose memory is traced. Values on others have 0 bytes.
  //
  // Throws: c10::Error if saved-tensor hooks are disabled on this thread.
  [[nodiscard]] explicit StepProfileGuard(c10::Device device = c10::Device(c10::kCPU));
  ~StepProfileGuard();
  StepProfileGuard(const StepProfileGuard&) = delete;
  StepProfileGuard& operator=(const StepProfileGuard&) = delete;

  // Ends the observation: `std::move(profile).finish()`. Returns a valid trace
  // (planner::Trace::validate()). A value that the program holds at this time counts as held to the
  // end of the step.
  planner::Trace finish() &&;

 private:
  std::unique_ptr<engine_internal::ProfiledStep> step_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_STEP_PROFILE_GUARD_H_
