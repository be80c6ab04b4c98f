// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Figures of the regions for memory_report(), by name, while a MemoryReportGuard lives.
#ifndef REPRISE_ENGINE_INTERNAL_REGION_STATS_H_
#define REPRISE_ENGINE_INTERNAL_REGION_STATS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/engine/memory_report.h"

namespace reprise::engine_internal {

// The sums of all regions of one name. Thread-safe.
struct RegionStats {
  explicit RegionStats(std::string_view name) : name(name) {}
  const std::string name;
  std::atomic<std::int64_t> runs{0};
  std::atomic<std::int64_t> slots{0};
  std::atomic<std::int64_t> dropped_bytes{0};
  std::atomic<std::int64_t> kept_bytes{0};
  std::atomic<std::int64_t> replays{0};
  std::atomic<std::int64_t> replay_nanoseconds{0};
};

// The figures to add to for a region of that name; null while nobody collects.
std::shared_ptr<RegionStats> stats_for(std::string_view name);

// What has been collected, in the order in which the names were first met.
std::vector<RegionReport> collected_regions();

void begin_collecting();
void end_collecting();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_REGION_STATS_H_
