// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/settings.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/debug_mode.h"

namespace reprise {
namespace {

thread_local std::optional<bool> t_early_stop;
thread_local std::optional<bool> t_debug;

enum class Setting : std::uint8_t { kUnset, kOff, kOn };
std::atomic<Setting> g_debug{Setting::kUnset};

}  // namespace

EarlyStopGuard::EarlyStopGuard(bool enabled) : previous_(std::exchange(t_early_stop, enabled)) {}
EarlyStopGuard::~EarlyStopGuard() { t_early_stop = previous_; }

void set_checkpoint_debug_enabled(std::optional<bool> enabled) noexcept {
  g_debug.store(!enabled ? Setting::kUnset : (*enabled ? Setting::kOn : Setting::kOff));
}

DebugModeGuard::DebugModeGuard(bool enabled) : previous_(std::exchange(t_debug, enabled)) {}
DebugModeGuard::~DebugModeGuard() { t_debug = previous_; }

namespace engine_internal {

bool effective_early_stop(bool option) noexcept { return t_early_stop.value_or(option); }

bool effective_debug(bool option) noexcept {
  if (t_debug) {
    return *t_debug;
  }
  const Setting setting = g_debug.load(std::memory_order_relaxed);
  return setting == Setting::kUnset ? option : setting == Setting::kOn;
}

}  // namespace engine_internal
}  // namespace reprise
