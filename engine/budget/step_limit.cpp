// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_limit.h"

#include <algorithm>

namespace reprise::engine_internal {

std::int64_t default_reserve(const AvailableMemory& memory) {
  constexpr std::int64_t kPart = 32;
  constexpr std::int64_t kLeast = std::int64_t{64} << 20;
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  return memory.on == LimitOn::kTensors ? 0 : std::clamp(memory.total_bytes / kPart, kLeast, kMost);
}

StepLimit share_of(const DeviceShare& share, const std::vector<AvailableMemory>& limits,
                   std::int64_t bytes_in_use) {
  const auto reserve = [&](const AvailableMemory& memory) {
    return share.reserve_bytes.value_or(default_reserve(memory));
  };
  const AvailableMemory& least = *std::min_element(
      limits.begin(), limits.end(), [&](const AvailableMemory& a, const AvailableMemory& b) {
        return a.bytes - reserve(a) < b.bytes - reserve(b);
      });
  StepLimit limit;
  limit.offered_bytes = bytes_in_use + least.bytes;
  limit.reserve_bytes = reserve(least);
  limit.source = least.limit;
  const auto whole =
      static_cast<double>(std::max<std::int64_t>(0, limit.offered_bytes - limit.reserve_bytes));
  limit.bytes = static_cast<std::int64_t>(share.fraction * whole);
  return limit;
}

}  // namespace reprise::engine_internal
