// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Options of regions that guards and process-wide settings override.
#ifndef REPRISE_ENGINE_REGION_SETTINGS_H_
#define REPRISE_ENGINE_REGION_SETTINGS_H_

#include <optional>

#include "reprise/hooks/seam/thread_stack.h"

namespace reprise::engine_internal {

// This thread's guards.
using Overrides = hooks_internal::ThreadStack<bool>;
Overrides& early_stop_overrides() noexcept;
Overrides& debug_overrides() noexcept;

// none: as the options of each region say.
void set_debug_of_process(std::optional<bool> enabled) noexcept;

// Each returns the effective value of a region's option on this thread, after guards and
// process-wide settings.
bool effective_early_stop(bool option) noexcept;
bool effective_debug(bool option) noexcept;

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_SETTINGS_H_
