// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Reports the operators of a step's forward to a StepRecorder.
#ifndef REPRISE_ENGINE_PROFILE_STEP_INTERCEPTOR_H_
#define REPRISE_ENGINE_PROFILE_STEP_INTERCEPTOR_H_

#include <c10/core/Device.h>

#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/runs_once.h"
#include "reprise/engine/profile/step_recorder.h"

namespace reprise::engine_internal {

// Waits for all work on the device, so that times include it.
void synchronize(c10::Device device);

// Runs the operator, through `next` unless that is null, and records it. once: why it cannot be
// recomputed, whichever operator it is.
void record_operator(StepRecorder& recorder, c10::Device device, const OperatorCall& call,
                     OperatorInterceptor* next, RunsOnce once = RunsOnce::kNo);

class StepInterceptor final : public OperatorInterceptor {
 public:
  // next: or null. Both must outlive this.
  StepInterceptor(StepRecorder& recorder, c10::Device device, OperatorInterceptor* next)
      : recorder_(recorder), device_(device), next_(next) {}
  void intercept(const OperatorCall& call) override {
    record_operator(recorder_, device_, call, next_);
  }

 private:
  StepRecorder& recorder_;
  const c10::Device device_;
  OperatorInterceptor* const next_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_PROFILE_STEP_INTERCEPTOR_H_
