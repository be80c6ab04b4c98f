// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What reports a step to a StepRecorder: an interceptor, observers of autograd's nodes and of
// memory, and saved-tensor hooks.
#ifndef REPRISE_ENGINE_PROFILE_PROFILED_STEP_H_
#define REPRISE_ENGINE_PROFILE_PROFILED_STEP_H_

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "reprise/engine/operators/interception.h"
#include "reprise/engine/profile/step_interceptor.h"
#include "reprise/engine/profile/step_recorder.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// The threads of a backward find it by this, too.
class MemoryObserver final : public c10::MemoryReportingInfoBase {
 public:
  explicit MemoryObserver(c10::Device device) : device_(device), recorder_(device) {}

  StepRecorder& recorder() { return recorder_; }
  c10::Device device() const { return device_; }
  // No reports from now on: the step has ended, but threads may still know of it.
  void close() { is_open_ = false; }
  bool is_open() const { return is_open_; }

  // Returns the observer of the calling thread's step; null without one.
  static MemoryObserver* current();

  void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t total_reserved, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return is_open_; }

 private:
  const c10::Device device_;
  StepRecorder recorder_;
  std::atomic<bool> is_open_ = true;
};

class ProfiledStep {
 public:
  explicit ProfiledStep(c10::Device device);
  ~ProfiledStep();
  ProfiledStep(const ProfiledStep&) = delete;
  ProfiledStep& operator=(const ProfiledStep&) = delete;

  planner::Trace finish();

 private:
  void end();

  const std::shared_ptr<MemoryObserver> observer_;
  StepInterceptor interceptor_;
  // In the order in which they begin.
  std::optional<c10::DebugInfoGuard> memory_;
  std::optional<SavedTensorHooksGuard> hooks_;
  std::optional<InterceptionScope> interception_;
  at::CallbackHandle nodes_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_PROFILE_PROFILED_STEP_H_
