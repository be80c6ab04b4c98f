// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/report/region_stats.h"

#include <chrono>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"

namespace reprise::engine_internal {
namespace {

// Read at each region's entry, so not guarded by the mutex.
std::atomic<int> g_collectors{0};

struct Collection {
  Mutex mutex;
  std::vector<std::shared_ptr<RegionStats>> in_order ABSL_GUARDED_BY(mutex);
  absl::flat_hash_map<std::string, std::shared_ptr<RegionStats>> by_name ABSL_GUARDED_BY(mutex);
};

Collection& collection() {
  static auto* instance = new Collection;  // frames may outlive static destruction
  return *instance;
}

}  // namespace

OperatorReport& RegionStats::entry(const c10::OperatorName& op, CheckpointPolicy decision) {
  std::string full_name = op.name;
  if (!op.overload_name.empty()) {
    full_name.append(".").append(op.overload_name);
  }
  const auto [found, is_new] = operators_.try_emplace(Key(std::move(full_name), decision));
  if (is_new) {
    found->second.name = found->first.first;
    found->second.decision = decision;
  }
  return found->second;
}

void RegionStats::add_call(const c10::OperatorName& op, CheckpointPolicy decision,
                           std::int64_t kept, std::int64_t dropped) {
  const MutexLock lock(mutex_);
  OperatorReport& report = entry(op, decision);
  ++report.calls;
  report.kept_bytes += kept;
  report.dropped_bytes += dropped;
}

void RegionStats::add_replay(const c10::OperatorName& op, CheckpointPolicy decision,
                             std::chrono::nanoseconds time) {
  const MutexLock lock(mutex_);
  OperatorReport& report = entry(op, decision);
  ++report.replays;
  report.replay_time += time;
}

void RegionStats::set_policy(std::shared_ptr<Policy> policy) {
  const MutexLock lock(mutex_);
  policy_.swap(policy);  // the old one is destroyed after the lock
}

RegionReport RegionStats::report() const {
  RegionReport report{.name = name,
                      .runs = runs.load(),
                      .forward_time = std::chrono::nanoseconds(forward_nanoseconds.load()),
                      .saved_tensors = saved_tensors.load(),
                      .dropped_bytes = dropped_bytes.load(),
                      .kept_bytes = kept_bytes.load(),
                      .replays = replays.load(),
                      .replay_time = std::chrono::nanoseconds(replay_nanoseconds.load()),
                      .tape_operators = tape_operators.load(),
                      .tape_bytes = tape_bytes.load(),
                      .untracked_bytes = untracked_bytes.load(),
                      .operators = {},
                      .unmatched = {}};
  std::shared_ptr<Policy> policy;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, op] : operators_) {
      report.operators.push_back(op);
    }
    policy = policy_;
  }
  if (policy) {
    report.unmatched = policy->unmatched();
  }
  return report;
}

std::shared_ptr<RegionStats> stats_for(std::string_view name) {
  if (g_collectors.load(std::memory_order_relaxed) == 0) {
    return nullptr;
  }
  Collection& all = collection();
  const MutexLock lock(all.mutex);
  std::shared_ptr<RegionStats>& stats = all.by_name[std::string(name)];
  if (!stats) {
    stats = std::make_shared<RegionStats>(name);
    all.in_order.push_back(stats);
  }
  return stats;
}

std::vector<RegionReport> collected_regions() {
  Collection& all = collection();
  std::vector<std::shared_ptr<RegionStats>> in_order;
  {
    const MutexLock lock(all.mutex);
    in_order = all.in_order;
  }
  std::vector<RegionReport> reports;
  for (const auto& stats : in_order) {
    reports.push_back(stats->report());
  }
  return reports;
}

void begin_collecting() {
  if (g_collectors.fetch_add(1) == 0) {
    Collection& all = collection();
    std::vector<std::shared_ptr<RegionStats>> dropped;  // after the lock, with their policies
    const MutexLock lock(all.mutex);
    dropped.swap(all.in_order);
    all.by_name.clear();
  }
}

void end_collecting() { g_collectors.fetch_sub(1); }

}  // namespace reprise::engine_internal
