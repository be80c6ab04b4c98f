// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: memory_report.h
//
// The effect of activation checkpointing, in bytes: current and peak memory of each device, and per
// region the bytes dropped and saved, and the recomputations.
//
// Example:
//
//   reprise::install_cpu_memory_counter();   // once, before the model is built
//   reprise::MemoryReportGuard collecting;   // per-region figures, while alive
//   train_one_step(model);
//   std::cout << reprise::memory_report().to_string();
//   std::cout << reprise::explain_policies();         // operator by operator, under a policy
//
// Thread-safety: thread-safe.
#ifndef REPRISE_ENGINE_MEMORY_REPORT_H_
#define REPRISE_ENGINE_MEMORY_REPORT_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/policies/checkpoint_policy.h"

namespace reprise {

// The memory of one device's allocator. For the CPU all figures are zero unless
// `install_cpu_memory_counter()` was called.
struct DeviceMemory {
  std::string device;  // "cpu", "cuda:0"
  std::int64_t current_bytes = 0;
  std::int64_t peak_bytes = 0;
};

// The calls of one operator with the same decision, in regions of one name.
struct OperatorReport {
  std::string name;  // "aten::add.Tensor"
  CheckpointPolicy decision = CheckpointPolicy::PREFER_RECOMPUTE;
  std::int64_t calls = 0;          // in forward
  std::int64_t kept_bytes = 0;     // of their results; results that are not needed are not saved
  std::int64_t dropped_bytes = 0;  // of their other results
  std::int64_t replays = 0;        // calls that a recomputation repeated
  std::chrono::nanoseconds replay_time{0};  // their host time
};

// All regions of one name since the collection began.
struct RegionReport {
  std::string name;
  std::int64_t runs = 0;                     // forward runs
  std::chrono::nanoseconds forward_time{0};  // their host time
  std::int64_t saved_tensors = 0;            // by autograd, in forward
  std::int64_t dropped_bytes = 0;            // their bytes, each storage once per run
  // Bytes of the inputs and of the results that a policy saves, before a store reduces them (to a
  // shard, a file, fewer bits); the store has counters of its own.
  std::int64_t kept_bytes = 0;
  std::int64_t replays = 0;
  // Host time on the recomputing threads. With `CheckpointOptions::synchronize_boundary` it
  // includes the device's kernels, as does forward_time.
  std::chrono::nanoseconds replay_time{0};

  // For regions with a tape: the number of operators on it, the bytes of that record, and, as a
  // part of kept_bytes, the bytes retained because they were produced outside the dispatcher.
  std::int64_t tape_operators = 0;
  std::int64_t tape_bytes = 0;
  std::int64_t untracked_bytes = 0;

  // Under a policy: the operators that it was asked for, and its entries that have matched none in
  // any region (`Policy::unmatched`).
  std::vector<OperatorReport> operators;
  std::vector<std::string> unmatched;

  // Returns whether the regions need more memory than without checkpointing: autograd would have
  // saved less than they keep.
  [[nodiscard]] bool keeps_more_than_autograd() const { return kept_bytes > dropped_bytes; }
};

struct MemoryReport {
  std::vector<DeviceMemory> devices;
  std::vector<RegionReport> regions;  // in the order of their first forward

  // Returns a human-readable table of devices and regions, with a warning for each region that
  // keeps more than autograd would.
  [[nodiscard]] REPRISE_API std::string to_string() const;
  // Returns human-readable tables, one per region with a policy: the decision for each operator,
  // and its cost.
  [[nodiscard]] REPRISE_API std::string explain() const;
};

// Returns the memory of the CPU and of each accelerator device that is in use (an idle device is
// not initialised) and whose allocator has statistics (c10::DeviceAllocator), and the regions since
// collection began.
//
// Stream: does not synchronise.
[[nodiscard]] REPRISE_API MemoryReport memory_report();

// Returns `memory_report().explain()`.
[[nodiscard]] REPRISE_API std::string explain_policies();

// While any guard is alive, regions whose forward starts are counted for `memory_report()`. The
// figures start at zero when the first guard is constructed, and remain readable after the last one
// is destroyed.
class [[nodiscard]] REPRISE_API MemoryReportGuard {
 public:
  [[nodiscard]] MemoryReportGuard();
  ~MemoryReportGuard();
  MemoryReportGuard(const MemoryReportGuard&) = delete;
  MemoryReportGuard& operator=(const MemoryReportGuard&) = delete;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_MEMORY_REPORT_H_
