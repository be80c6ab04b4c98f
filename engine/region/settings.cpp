// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/settings.h"

#include <atomic>
#include <cstdint>

namespace reprise::engine_internal {
namespace {

enum class Setting : std::uint8_t { kUnset, kOff, kOn };
std::atomic<Setting> g_debug{Setting::kUnset};

}  // namespace

Overrides& early_stop_overrides() noexcept {
  thread_local Overrides t_overrides;
  return t_overrides;
}

Overrides& debug_overrides() noexcept {
  thread_local Overrides t_overrides;
  return t_overrides;
}

void set_debug_of_process(std::optional<bool> enabled) noexcept {
  g_debug.store(!enabled ? Setting::kUnset : (*enabled ? Setting::kOn : Setting::kOff));
}

bool effective_early_stop(bool option) noexcept {
  const bool* const guard = early_stop_overrides().innermost();
  return guard == nullptr ? option : *guard;
}

bool effective_debug(bool option) noexcept {
  if (const bool* const guard = debug_overrides().innermost()) {
    return *guard;
  }
  const Setting setting = g_debug.load(std::memory_order_relaxed);
  return setting == Setting::kUnset ? option : setting == Setting::kOn;
}

}  // namespace reprise::engine_internal
