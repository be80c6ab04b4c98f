// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/memory_report.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <iomanip>
#include <sstream>

#include "reprise/engine/report/region_stats.h"

namespace reprise {
namespace {

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1024.0 * 1024.0); }

double milliseconds(std::chrono::nanoseconds time) {
  return static_cast<double>(time.count()) / 1e6;
}

void add_accelerator(std::vector<DeviceMemory>& devices) {
  const auto type = at::getAccelerator();
  if (!type) {
    return;
  }
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(*type));
  if (allocator == nullptr) {
    return;  // an external backend may have no statistics
  }
  const auto& hooks = at::globalContext().getAcceleratorHooksInterface(*type);
  for (c10::DeviceIndex index = 0; index < hooks.deviceCount(); ++index) {
    if (!hooks.hasPrimaryContext(index)) {
      continue;
    }
    const auto stats = allocator->getDeviceStats(index);
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
        << mebibytes(device.current_bytes) << std::setw(14) << mebibytes(device.peak_bytes) << '\n';
  }
  if (!regions.empty()) {
    out << '\n'
        << std::left << std::setw(24) << "region" << std::right << std::setw(6) << "runs"
        << std::setw(13) << "forward ms" << std::setw(8) << "saved" << std::setw(13)
        << "dropped MiB" << std::setw(10) << "kept MiB" << std::setw(9) << "replays"
        << std::setw(12) << "replay ms" << '\n';
  }
  for (const RegionReport& region : regions) {
    out << std::left << std::setw(24) << region.name << std::right << std::setw(6) << region.runs
        << std::setw(13) << milliseconds(region.forward_time) << std::setw(8)
        << region.saved_tensors << std::setw(13) << mebibytes(region.dropped_bytes) << std::setw(10)
        << mebibytes(region.kept_bytes) << std::setw(9) << region.replays << std::setw(12)
        << milliseconds(region.replay_time) << '\n';
  }
  for (const RegionReport& region : regions) {
    if (region.keeps_more_than_autograd()) {
      out << "warning: region '" << region.name << "' keeps " << mebibytes(region.kept_bytes)
          << " MiB, and autograd alone would keep " << mebibytes(region.dropped_bytes)
          << " MiB: its inputs and the results that its policy insists on are larger than what it "
             "drops. Do not make it a region, or save less\n";
    }
  }
  return out.str();
}

std::string MemoryReport::explain() const {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2);
  for (const RegionReport& region : regions) {
    if (region.operators.empty() && region.unmatched.empty() && region.tape_operators == 0) {
      continue;
    }
    out << "region '" << region.name << "', " << region.runs << " runs, " << region.replays
        << " replays\n";
    if (region.tape_operators > 0) {
      out << "  tape: " << region.tape_operators << " operators, " << mebibytes(region.tape_bytes)
          << " MiB; kept because it came about out of sight: " << mebibytes(region.untracked_bytes)
          << " MiB\n";
    }
    if (region.operators.empty() && region.unmatched.empty()) {
      continue;
    }
    out << std::left << std::setw(40) << "  operator" << std::setw(19) << "decision" << std::right
        << std::setw(7) << "calls" << std::setw(11) << "kept MiB" << std::setw(13) << "dropped MiB"
        << std::setw(9) << "replays" << std::setw(11) << "replay ms" << '\n';
    for (const OperatorReport& op : region.operators) {
      out << "  " << std::left << std::setw(38) << op.name << std::setw(19)
          << reprise::to_string(op.decision) << std::right << std::setw(7) << op.calls
          << std::setw(11) << mebibytes(op.kept_bytes) << std::setw(13)
          << mebibytes(op.dropped_bytes) << std::setw(9) << op.replays << std::setw(11)
          << milliseconds(op.replay_time) << '\n';
    }
    for (const std::string& entry : region.unmatched) {
      out << "  matched nothing: " << entry << '\n';
    }
  }
  return out.str();
}

std::string explain_policies() { return memory_report().explain(); }

MemoryReportGuard::MemoryReportGuard() { engine_internal::begin_collecting(); }
MemoryReportGuard::~MemoryReportGuard() { engine_internal::end_collecting(); }

}  // namespace reprise
