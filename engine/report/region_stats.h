// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Figures of regions for memory_report(), by name, while a MemoryReportGuard is alive.
#ifndef REPRISE_ENGINE_REPORT_REGION_STATS_H_
#define REPRISE_ENGINE_REPORT_REGION_STATS_H_

#include <ATen/core/operator_name.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/memory_report.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise::engine_internal {

// The sums of all regions of one name. Thread-safe.
class RegionStats {
 public:
  explicit RegionStats(std::string_view name) : name(name) {}

  // Count a call of an operator under a policy, in forward and in a replay.
  void add_call(const c10::OperatorName& op, CheckpointPolicy decision, std::int64_t kept,
                std::int64_t dropped) ABSL_LOCKS_EXCLUDED(mutex_);
  void add_replay(const c10::OperatorName& op, CheckpointPolicy decision,
                  std::chrono::nanoseconds time) ABSL_LOCKS_EXCLUDED(mutex_);
  void set_policy(std::shared_ptr<Policy> policy) ABSL_LOCKS_EXCLUDED(mutex_);

  RegionReport report() const ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string name;
  std::atomic<std::int64_t> runs{0};
  std::atomic<std::int64_t> forward_nanoseconds{0};
  std::atomic<std::int64_t> saved_tensors{0};
  std::atomic<std::int64_t> dropped_bytes{0};
  std::atomic<std::int64_t> kept_bytes{0};
  std::atomic<std::int64_t> replays{0};
  std::atomic<std::int64_t> replay_nanoseconds{0};
  std::atomic<std::int64_t> tape_operators{0};
  std::atomic<std::int64_t> tape_bytes{0};
  std::atomic<std::int64_t> untracked_bytes{0};

 private:
  using Key = std::pair<std::string, CheckpointPolicy>;
  OperatorReport& entry(const c10::OperatorName& op, CheckpointPolicy decision)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<Key, OperatorReport> operators_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Policy> policy_ ABSL_GUARDED_BY(mutex_);
};

// Returns the figures to add to for a region of that name; null if no report is collected.
std::shared_ptr<RegionStats> stats_for(std::string_view name);

// Returns the collected figures, in the order of their names' first appearance.
std::vector<RegionReport> collected_regions();

void begin_collecting();
void end_collecting();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REPORT_REGION_STATS_H_
