// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Options of regions that guards and process-wide settings override.
#ifndef REPRISE_ENGINE_REGION_SETTINGS_H_
#define REPRISE_ENGINE_REGION_SETTINGS_H_

namespace reprise::engine_internal {

// Each returns the effective value of a region's option on this thread, after guards and
// process-wide settings.
bool effective_early_stop(bool option) noexcept;
bool effective_debug(bool option) noexcept;

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REGION_SETTINGS_H_
