// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/debug_mode.h"

#include "reprise/engine/region/settings.h"

namespace reprise {

using engine_internal::debug_overrides;

void set_checkpoint_debug_enabled(std::optional<bool> enabled) noexcept {
  engine_internal::set_debug_of_process(enabled);
}

DebugModeGuard::DebugModeGuard(bool enabled) : entry_(debug_overrides().push(enabled)) {}
DebugModeGuard::~DebugModeGuard() { debug_overrides().end(*entry_); }

}  // namespace reprise
