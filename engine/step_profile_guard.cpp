// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/step_profile_guard.h"

#include "reprise/engine/profile/profiled_step.h"

namespace reprise {

StepProfileGuard::StepProfileGuard(c10::Device device)
    : step_(std::make_unique<engine_internal::ProfiledStep>(device)) {}

StepProfileGuard::~StepProfileGuard() = default;

planner::Trace StepProfileGuard::finish() && { return step_->finish(); }

}  // namespace reprise
