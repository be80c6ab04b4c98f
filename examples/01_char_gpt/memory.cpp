// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <iomanip>
#include <sstream>

#include "reprise/engine/cpu_memory.h"

namespace char_gpt {
namespace {

c10::CachingAllocator::Stat allocated_bytes(const c10::Device& device) {
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  return stats
      .allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

}  // namespace

std::int64_t current_bytes(const c10::Device& device) {
  return device.is_cpu() ? reprise::cpu_memory().current_bytes : allocated_bytes(device).current;
}

std::int64_t peak_bytes(const c10::Device& device) {
  return device.is_cpu() ? reprise::cpu_memory().peak_bytes : allocated_bytes(device).peak;
}

void reset_peak_bytes(const c10::Device& device) {
  if (device.is_cpu()) {
    reprise::reset_peak_cpu_memory();
  } else {
    c10::getDeviceAllocator(device.type())->resetPeakStats(device.index());
  }
}

double to_mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

std::string mebibytes_text(std::int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << to_mebibytes(bytes) << " MiB";
  return out.str();
}

}  // namespace char_gpt
