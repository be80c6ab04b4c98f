// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/region_stats.h"

#include <chrono>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace reprise::engine_internal {
namespace {

// Asked at each region's entry, so not behind the mutex.
std::atomic<int> g_collectors{0};

struct Collection {
  absl::Mutex mutex;
  std::vector<std::shared_ptr<RegionStats>> in_order ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<std::string, std::shared_ptr<RegionStats>> by_name ABSL_GUARDED_BY(mutex);
};

Collection& collection() {
  static auto* instance = new Collection;  // frames may outlive static destruction
  return *instance;
}

}  // namespace

std::shared_ptr<RegionStats> stats_for(std::string_view name) {
  if (g_collectors.load(std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  Collection& all = collection();
  const absl::MutexLock lock(&all.mutex);
  std::shared_ptr<RegionStats>& stats = all.by_name[std::string(name)];
  if (!stats) {
    stats = std::make_shared<RegionStats>(name);
    all.in_order.push_back(stats);
  }
  return stats;
}

std::vector<RegionReport> collected_regions() {
  Collection& all = collection();
  const absl::MutexLock lock(&all.mutex);
  std::vector<RegionReport> reports;
  for (const auto& stats : all.in_order) {
    reports.push_back({.name = stats->name,
                       .runs = stats->runs.load(),
                       .slots = stats->slots.load(),
                       .dropped_bytes = stats->dropped_bytes.load(),
                       .kept_bytes = stats->kept_bytes.load(),
                       .replays = stats->replays.load(),
                       .replay_time = std::chrono::nanoseconds(stats->replay_nanoseconds.load())});
  }
  return reports;
}

void begin_collecting() {
  if (g_collectors.fetch_add(1) == 0) {
    Collection& all = collection();
    const absl::MutexLock lock(&all.mutex);
    all.in_order.clear();
    all.by_name.clear();
  }
}

void end_collecting() { g_collectors.fetch_sub(1); }

}  // namespace reprise::engine_internal
