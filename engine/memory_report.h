// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: memory_report.h
//
// What activation checkpointing saved, in bytes: memory of each device now and at its peak, and per
// region what was dropped, kept and replayed.
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

// One device's allocator. For the CPU all are zero unless `install_cpu_memory_counter()` was
// called.
struct DeviceMemory {
  std::string device;  // "cpu", "cuda:0"
  std::int64_t current_bytes = 0;
  std::int64_t peak_bytes = 0;
};

// All calls of one operator, in regions of one name, for which the decision was the same.
struct OperatorReport {
  std::string name;  // "aten::add.Tensor"
  CheckpointPolicy decision = CheckpointPolicy::PREFER_RECOMPUTE;
  std::int64_t calls = 0;                   // in forward
  std::int64_t kept_bytes = 0;              // of their results; what nothing needs is not kept
  std::int64_t dropped_bytes = 0;           // of their results, the rest
  std::int64_t replays = 0;                 // calls that a replay ran again
  std::chrono::nanoseconds replay_time{0};  // host time of those
};

// All regions of one name since the collection began.
struct RegionReport {
  std::string name;
  std::int64_t runs = 0;                     // forward runs
  std::chrono::nanoseconds forward_time{0};  // host time of those
  std::int64_t slots = 0;                    // tensors that autograd saved
  std::int64_t dropped_bytes = 0;            // bytes of those tensors, a storage counted once a run
  // Bytes of the inputs, and of what a policy keeps, as put: what a store makes of them (a part, a
  // file, fewer bits) its own counters tell.
  std::int64_t kept_bytes = 0;
  std::int64_t replays = 0;
  // Host time on the replaying threads. Like forward_time it is that of the device's kernels too
  // with `CheckpointOptions::synchronize_boundary`.
  std::chrono::nanoseconds replay_time{0};

  // Of regions with a tape: the operators on it, the bytes of that record, and, part of kept_bytes,
  // what had to be kept because no operator that the dispatcher saw has made it.
  std::int64_t tape_operators = 0;
  std::int64_t tape_bytes = 0;
  std::int64_t untracked_bytes = 0;

  // Under a policy: what it was asked for, and the entries of it that have matched nothing in any
  // region (`Policy::unmatched`).
  std::vector<OperatorReport> operators;
  std::vector<std::string> unmatched;
};

struct MemoryReport {
  std::vector<DeviceMemory> devices;
  std::vector<RegionReport> regions;  // in the order of their first forward

  // A table of devices and regions for people.
  [[nodiscard]] REPRISE_API std::string to_string() const;
  // Tables for people, one a region with a policy: what was decided for each operator, and at what
  // price.
  [[nodiscard]] REPRISE_API std::string explain() const;
};

// Memory of the CPU and of each accelerator device that is in use now (none is woken by asking) and
// whose allocator counts (c10::DeviceAllocator), and the regions since collection began. Does not
// synchronise.
[[nodiscard]] REPRISE_API MemoryReport memory_report();

// `memory_report().explain()`.
[[nodiscard]] REPRISE_API std::string explain_policies();

// While any is alive, regions whose forward starts are counted for `memory_report()`. The figures
// start from nothing when the first guard is made, and stay readable after the last has gone.
class [[nodiscard]] REPRISE_API MemoryReportGuard {
 public:
  MemoryReportGuard();
  ~MemoryReportGuard();
  MemoryReportGuard(const MemoryReportGuard&) = delete;
  MemoryReportGuard& operator=(const MemoryReportGuard&) = delete;
};

}  // namespace reprise

#endif  // REPRISE_ENGINE_MEMORY_REPORT_H_
