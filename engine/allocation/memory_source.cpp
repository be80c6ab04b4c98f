// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/allocation/memory_source.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "reprise/engine/allocation/accelerator_memory.h"
#include "reprise/engine/allocation/cpu_allocations.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::engine_internal {
namespace {

class CountedCpuMemory final : public MemorySource {
 public:
  CountedCpuMemory() : MemorySource(c10::Device(c10::kCPU)) {}

  std::int64_t bytes_in_use() override { return cpu_memory().current_bytes; }
  std::vector<AvailableMemory> available() override;
  MemoryPeak take_peak() override { return take_cpu_peak(); }
  void set_limit(std::int64_t bytes) override { set_cpu_soft_limit(bytes); }
  bool keeps_limit() const override { return true; }
  std::int64_t shortage(std::int64_t /*bytes*/) override { return 0; }
  void report_blocks(bool enabled) override { report_cpu_blocks(enabled); }
  std::unique_ptr<c10::DebugInfoGuard> observe(std::weak_ptr<BlockObserver> /*blocks*/) override {
    return nullptr;
  }
  bool can_observe() const override { return true; }

 private:
  const SystemMemory system_;
};

// Pages that malloc() holds are given back where they matter, so that they count as free.
std::vector<AvailableMemory> CountedCpuMemory::available() {
  constexpr std::int64_t kPart = 8;  // of the free pages
  const ProcessLimits limits = ProcessLimits::current();
  const std::int64_t held_bytes = bytes_held_by_malloc();
  std::vector<AvailableMemory> found = system_.available(limits, held_bytes);
  if (std::any_of(found.begin(), found.end(), [&](const AvailableMemory& memory) {
        return memory.on == LimitOn::kPages && held_bytes > memory.bytes / kPart;
      })) {
    release_held_pages();
    found = system_.available(limits, held_bytes);
  }
  if (const std::int64_t limit = cpu_limit(); limit != kNoLimit) {
    found.push_back({.bytes = limit - bytes_in_use(),
                     .total_bytes = limit,
                     .limit = "set_cpu_memory_limit",
                     .on = LimitOn::kTensors});
  }
  TORCH_CHECK(!found.empty(),
              "[memory_budget] the operating system does not tell how much memory is available: ",
              "set peak_bytes");
  return found;
}

}  // namespace

MemorySource& memory_source(c10::Device device) {
  static auto* const kCpu = new CountedCpuMemory;  // never destroyed, as the counter is not
  return device.is_cpu() ? static_cast<MemorySource&>(*kCpu) : AcceleratorMemory::of(device);
}

}  // namespace reprise::engine_internal
