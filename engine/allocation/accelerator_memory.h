// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory of an accelerator, counted by the reports of its allocator.
#ifndef REPRISE_ENGINE_ALLOCATION_ACCELERATOR_MEMORY_H_
#define REPRISE_ENGINE_ALLOCATION_ACCELERATOR_MEMORY_H_

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/engine/allocation/memory_source.h"

namespace reprise::engine_internal {

class AcceleratorMemory final : public MemorySource {
 public:
  static AcceleratorMemory& of(c10::Device device);

  // Throws c10::Error if the allocator tells nothing of its memory.
  std::int64_t bytes_in_use() override;
  // Cached blocks count as free, but for parts of blocks in use (inactive_split_bytes): a tensor
  // that is larger than each of them would not fit. Expandable segments have all of their free
  // memory there, so that it is available only after emptyCache().
  std::vector<AvailableMemory> available() override;
  MemoryPeak take_peak() override;
  void set_limit(std::int64_t bytes) override { limit_ = bytes; }
  bool keeps_limit() const override { return false; }
  std::int64_t shortage(std::int64_t bytes) override;
  void report_blocks(bool /*enabled*/) override {}
  std::unique_ptr<c10::DebugInfoGuard> observe(std::weak_ptr<BlockObserver> blocks) override;
  bool can_observe() const override;
  std::int64_t take_unreported() override;
  void begin_operator() override;
  std::int64_t operator_bytes() const override;

  // A block of `bytes`, negative if it has been freed, which leaves `total_bytes` in use.
  void count(std::int64_t bytes, std::int64_t total_bytes);

 private:
  explicit AcceleratorMemory(c10::Device device) : MemorySource(device) {}
  std::optional<std::int64_t> allocators_statistics() const;
  void note(std::int64_t total_bytes);

  std::atomic<std::int64_t> total_{0};  // in use, as last known
  std::atomic<std::int64_t> peak_{0};
  std::atomic<std::int64_t> limit_{kNoLimit};
};

// What LibTorch's allocators report a thread's blocks to, and those of the threads of its
// backwards.
class MemoryReports final : public c10::MemoryReportingInfoBase {
 public:
  // blocks: of `blocks_device`, perhaps null.
  MemoryReports(std::vector<AcceleratorMemory*> sources, std::weak_ptr<BlockObserver> blocks,
                c10::Device blocks_device)
      : sources_(std::move(sources)), blocks_(std::move(blocks)), blocks_device_(blocks_device) {}

  // Returns a guard in which the calling thread reports to these; null while something else
  // receives its reports, as LibTorch's profiler does, which counts on it.
  static std::unique_ptr<c10::DebugInfoGuard> begin(std::shared_ptr<MemoryReports> reports);
  // Returns those of the calling thread, or null.
  static MemoryReports* current();

  bool counts(const AcceleratorMemory& source) const;

  void reportMemoryUsage(void* block, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t total_reserved, c10::Device device) override;
  bool memoryProfilingEnabled() const override { return true; }

 private:
  const std::vector<AcceleratorMemory*> sources_;
  const std::weak_ptr<BlockObserver> blocks_;
  const c10::Device blocks_device_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_ALLOCATION_ACCELERATOR_MEMORY_H_
