// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: debug_mode.h
//
// Turns debug mode of regions on or off from outside, without access to their options. In debug
// mode a region records its operators with C++ stack traces, and a DeterminismError shows both
// lists from the first difference on; an observed step of a memory budget records the stacks of its
// operators (MemoryBudget::step_report()). Nothing is recorded while it is off.
//
// Not for training: a stack trace is taken for every operator.
//
// Example:
//
//   reprise::DebugModeGuard debug(true);
//   train_one_step(model);
//
// Thread-safety: the guard affects the calling thread; `set_checkpoint_debug_enabled` is
// thread-safe and affects the process.
#ifndef REPRISE_ENGINE_DEBUG_MODE_H_
#define REPRISE_ENGINE_DEBUG_MODE_H_

#include <memory>
#include <optional>

#include "reprise/base/export.h"

namespace reprise {

namespace hooks_internal {
class ThreadStackEntry;
}

// Overrides `CheckpointOptions::debug` for every region of the process whose forward starts from
// now on; std::nullopt returns to the options.
REPRISE_API void set_checkpoint_debug_enabled(std::optional<bool> enabled) noexcept;

// While alive, overrides the options and `set_checkpoint_debug_enabled` for regions whose forward
// starts on this thread. The innermost guard takes precedence.
class [[nodiscard]] REPRISE_API DebugModeGuard {
 public:
  [[nodiscard]] explicit DebugModeGuard(bool enabled);
  ~DebugModeGuard();
  DebugModeGuard(const DebugModeGuard&) = delete;
  DebugModeGuard& operator=(const DebugModeGuard&) = delete;

 private:
  std::shared_ptr<hooks_internal::ThreadStackEntry> entry_;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_DEBUG_MODE_H_
