// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/memory_report.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <iomanip>
#include <sstream>

#include "reprise/engine/internal/region_stats.h"

namespace reprise {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

void add_accelerator(std::vector<DeviceMemory>& devices) {
  const auto type = at::getAccelerator();
  if (!type) {
    return;
  }
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(*type);
  for (c10::DeviceIndex index = 0; index < hooks.deviceCount(); ++index) {
    if (!hooks.hasPrimaryContext(index)) {
      continue;
    }
    const auto stats = at::getDeviceAllocator(*type)->getDeviceStats(index);
    const auto& allocated =
        stats.allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
    devices.push_back({.device = c10::Device(*type, index).str(),
                       .current_bytes = allocated.current,
                       .peak_bytes = allocated.peak});
  }
}

}  // namespace

MemoryReport memory_report() {
  MemoryReport report;
  const CpuMemory cpu = cpu_memory();
  report.devices.push_back(
      {.device = "cpu", .current_bytes = cpu.current_bytes, .peak_bytes = cpu.peak_bytes});
  add_accelerator(report.devices);
  report.regions = engine_internal::collected_regions();
  return report;
}

std::string MemoryReport::to_string() const {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  out << std::left << std::setw(24) << "device" << std::right << std::setw(14) << "now MiB"
      << std::setw(14) << "peak MiB" << '\n';
  for (const DeviceMemory& device : devices) {
    out << std::left << std::setw(24) << device.device << std::right << std::setw(14)
        << static_cast<double>(device.current_bytes) / kMebibyte << std::setw(14)
        << static_cast<double>(device.peak_bytes) / kMebibyte << '\n';
  }
  if (!regions.empty()) {
    out << '\n'
        << std::left << std::setw(24) << "region" << std::right << std::setw(6) << "runs"
        << std::setw(8) << "slots" << std::setw(13) << "dropped MiB" << std::setw(10) << "kept MiB"
        << std::setw(9) << "replays" << std::setw(12) << "replay ms" << '\n';
  }
  for (const RegionReport& region : regions) {
    out << std::left << std::setw(24) << region.name << std::right << std::setw(6) << region.runs
        << std::setw(8) << region.slots << std::setw(13)
        << static_cast<double>(region.dropped_bytes) / kMebibyte << std::setw(10)
        << static_cast<double>(region.kept_bytes) / kMebibyte << std::setw(9) << region.replays
        << std::setw(12) << static_cast<double>(region.replay_time.count()) / 1e6 << '\n';
  }
  return out.str();
}

MemoryReportGuard::MemoryReportGuard() { engine_internal::begin_collecting(); }
MemoryReportGuard::~MemoryReportGuard() { engine_internal::end_collecting(); }

}  // namespace reprise
