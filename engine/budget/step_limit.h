// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The limit of one step, of a budget that has no number of its own: a part of all that the device
// has to give when the step begins.
#ifndef REPRISE_ENGINE_BUDGET_STEP_LIMIT_H_
#define REPRISE_ENGINE_BUDGET_STEP_LIMIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/engine/allocation/available_memory.h"
#include "reprise/engine/allocation/memory_source.h"

namespace reprise::engine_internal {

// The options of MemoryBudgetOptions.
struct DeviceShare {
  double fraction = 1;
  std::optional<std::int64_t> reserve_bytes = std::nullopt;  // none: default_reserve()
};

// On bytes in use.
struct StepLimit {
  std::int64_t bytes = kNoLimit;

  // Of a share: what the device had to give, in use or available, of which this was left free, and
  // which limit said so. Empty: the budget has a number.
  std::int64_t offered_bytes = 0;
  std::int64_t reserve_bytes = 0;
  std::string source = {};

  bool is_share() const { return !source.empty(); }
};

// Returns the bytes that are left free: for code outside of tensors, and for what allocators waste.
std::int64_t default_reserve(const AvailableMemory& memory);

// Returns the least of what the limits leave. limits: at least one.
StepLimit share_of(const DeviceShare& share, const std::vector<AvailableMemory>& limits,
                   std::int64_t bytes_in_use);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_LIMIT_H_
