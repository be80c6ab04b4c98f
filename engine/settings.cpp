// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/settings.h"

#include <atomic>
#include <cstdint>
#include <optional>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/debug_mode.h"
#include "reprise/hooks/seam/thread_stack.h"

namespace reprise {
namespace {

using hooks_internal::ThreadStack;

thread_local ThreadStack<bool> t_early_stop;
thread_local ThreadStack<bool> t_debug;

enum class Setting : std::uint8_t { kUnset, kOff, kOn };
std::atomic<Setting> g_debug{Setting::kUnset};

}  // namespace

EarlyStopGuard::EarlyStopGuard(bool enabled) : entry_(t_early_stop.push(enabled)) {}
EarlyStopGuard::~EarlyStopGuard() { t_early_stop.end(*entry_); }

void set_checkpoint_debug_enabled(std::optional<bool> enabled) noexcept {
  g_debug.store(!enabled ? Setting::kUnset : (*enabled ? Setting::kOn : Setting::kOff));
}

DebugModeGuard::DebugModeGuard(bool enabled) : entry_(t_debug.push(enabled)) {}
DebugModeGuard::~DebugModeGuard() { t_debug.end(*entry_); }

namespace engine_internal {

bool effective_early_stop(bool option) noexcept {
  const bool* const guard = t_early_stop.innermost();
  return guard == nullptr ? option : *guard;
}

bool effective_debug(bool option) noexcept {
  if (const bool* const guard = t_debug.innermost()) {
    return *guard;
  }
  const Setting setting = g_debug.load(std::memory_order_relaxed);
  return setting == Setting::kUnset ? option : setting == Setting::kOn;
}

}  // namespace engine_internal
}  // namespace reprise
