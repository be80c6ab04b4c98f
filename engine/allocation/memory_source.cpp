// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/allocation/memory_source.h"

#include "reprise/engine/allocation/accelerator_memory.h"
#include "reprise/engine/allocation/cpu_allocations.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::engine_internal {
namespace {

class CountedCpuMemory final : public MemorySource {
 public:
  CountedCpuMemory() : MemorySource(c10::Device(c10::kCPU)) {}

  std::int64_t bytes_in_use() override { return cpu_memory().current_bytes; }
  MemoryPeak take_peak() override { return take_cpu_peak(); }
  void set_limit(std::int64_t bytes) override { set_cpu_soft_limit(bytes); }
  bool keeps_limit() const override { return true; }
  std::int64_t shortage(std::int64_t /*bytes*/) override { return 0; }
  void report_blocks(bool enabled) override { report_cpu_blocks(enabled); }
  std::unique_ptr<c10::DebugInfoGuard> observe(std::weak_ptr<BlockObserver> /*blocks*/) override {
    return nullptr;
  }
  bool can_observe() const override { return true; }
};

}  // namespace

MemorySource& memory_source(c10::Device device) {
  static auto* const kCpu = new CountedCpuMemory;  // never destroyed, as the counter is not
  return device.is_cpu() ? static_cast<MemorySource&>(*kCpu) : AcceleratorMemory::of(device);
}

}  // namespace reprise::engine_internal
