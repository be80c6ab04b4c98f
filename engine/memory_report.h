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
//
// Thread-safety: thread-safe.
#ifndef REPRISE_ENGINE_MEMORY_REPORT_H_
#define REPRISE_ENGINE_MEMORY_REPORT_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/engine/cpu_memory.h"
#include "reprise/hooks/export.h"

namespace reprise {

// One device's allocator. For the CPU all are zero unless `install_cpu_memory_counter()` was
// called.
struct DeviceMemory {
  std::string device;  // "cpu", "cuda:0"
  std::int64_t current_bytes = 0;
  std::int64_t peak_bytes = 0;
};

// All regions of one name since the collection began.
struct RegionReport {
  std::string name;
  std::int64_t runs = 0;           // forward runs
  std::int64_t slots = 0;          // tensors that autograd saved
  std::int64_t dropped_bytes = 0;  // bytes of those tensors, a storage counted once a run
  std::int64_t kept_bytes = 0;     // bytes of the inputs that the frames hold on to
  std::int64_t replays = 0;
  std::chrono::nanoseconds replay_time{0};  // host time on the replaying threads
};

struct MemoryReport {
  std::vector<DeviceMemory> devices;
  std::vector<RegionReport> regions;  // in the order of their first forward

  // A table for people.
  [[nodiscard]] REPRISE_API std::string to_string() const;
};

// Memory of the CPU and of each accelerator device that is in use now (none is woken by asking),
// and the regions since collection began. Does not synchronise.
[[nodiscard]] REPRISE_API MemoryReport memory_report();

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
