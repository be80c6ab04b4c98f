// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/bypass_mode.h"

#include "reprise/engine/internal/bypass.h"

namespace reprise {
namespace {

thread_local int bypasses = 0;

}  // namespace

BypassModeGuard::BypassModeGuard() { ++bypasses; }
BypassModeGuard::~BypassModeGuard() { --bypasses; }

namespace engine_internal {

bool is_bypassed() noexcept { return bypasses > 0; }

}  // namespace engine_internal
}  // namespace reprise
