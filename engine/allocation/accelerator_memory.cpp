// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/allocation/accelerator_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {
namespace {

// Of the calling thread's operator.
struct Growth {
  const AcceleratorMemory* memory = nullptr;
  std::int64_t bytes = 0;
  std::int64_t most = 0;
};
thread_local Growth t_growth;

c10::DebugInfoKind kind_of_reports() { return c10::DebugInfoKind::PROFILER_STATE; }

struct OneReport final : c10::MemoryReportingInfoBase {
  explicit OneReport(c10::Device of) : device(of) {}
  void reportMemoryUsage(void* /*block*/, std::int64_t bytes, std::size_t total_allocated,
                         std::size_t /*total_reserved*/, c10::Device of) override {
    if (of == device && bytes > 0) {
      total = static_cast<std::int64_t>(total_allocated);
      own = bytes;
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  const c10::Device device;
  std::optional<std::int64_t> total;
  std::int64_t own = 0;
};

// Allocates a byte, whose report has the total.
std::shared_ptr<OneReport> ask_for_a_report(c10::Device device) {
  auto report = std::make_shared<OneReport>(device);
  const c10::DebugInfoGuard reporting(kind_of_reports(), report);
  const c10::DeviceGuard on_device(device);
  static_cast<void>(c10::GetAllocator(device.type())->allocate(1));
  return report;
}

}  // namespace

AcceleratorMemory& AcceleratorMemory::of(c10::Device device) {
  struct Known {
    Mutex mutex;
    std::vector<AcceleratorMemory*> memories ABSL_GUARDED_BY(mutex);
  };
  static auto* const kKnown = new Known;  // never destroyed: reports may come at any time
  const MutexLock lock(kKnown->mutex);
  for (AcceleratorMemory* const memory : kKnown->memories) {
    if (memory->device() == device) {
      return *memory;
    }
  }
  return *kKnown->memories.emplace_back(new AcceleratorMemory(device));
}

void AcceleratorMemory::note(std::int64_t total_bytes) {
  total_ = total_bytes;
  raise(peak_, total_bytes);
}

void AcceleratorMemory::count(std::int64_t bytes, std::int64_t total_bytes) {
  note(total_bytes);
  if (t_growth.memory == this) {
    t_growth.bytes += bytes;
    t_growth.most = std::max(t_growth.most, t_growth.bytes);
  }
}

std::int64_t AcceleratorMemory::take_unreported() {
  const std::int64_t reported = total_;
  return bytes_in_use() - reported;
}

void AcceleratorMemory::begin_operator() { t_growth = {this, 0, 0}; }

std::int64_t AcceleratorMemory::operator_bytes() const {
  return t_growth.memory == this ? t_growth.most : 0;
}

std::optional<std::int64_t> AcceleratorMemory::allocators_statistics() const {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device().type()));
  if (allocator == nullptr || !allocator->initialized()) {
    return std::nullopt;
  }
  try {
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return allocator->getDeviceStats(device().index()).allocated_bytes.at(kAll).current;
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  }
}

std::int64_t AcceleratorMemory::bytes_in_use() {
  if (const std::optional<std::int64_t> bytes = allocators_statistics()) {
    note(*bytes);
    return *bytes;
  }
  const std::shared_ptr<OneReport> report = ask_for_a_report(device());
  TORCH_CHECK(report->total, "[memory_budget] the allocator of ", device(),
              " neither reports its memory (c10::reportMemoryUsageToProfiler) nor has statistics ",
              "(c10::DeviceAllocator), so that there can be no budget for it");
  raise(peak_, *report->total);
  total_ = *report->total - report->own;
  return total_;
}

std::vector<AvailableMemory> AcceleratorMemory::available() {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device().type()));
  if (allocator != nullptr && !allocator->initialized()) {
    static_cast<void>(ask_for_a_report(device()));
  }
  const auto memory = allocator == nullptr
                          ? std::nullopt
                          : hooks_internal::memory_info(*allocator, device().index());
  TORCH_CHECK(memory, "[memory_budget] the allocator of ", device(),
              " does not tell how much memory is available (c10::DeviceAllocator::getMemoryInfo, ",
              "from LibTorch 2.10 on): set peak_bytes");
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const c10::CachingDeviceAllocator::DeviceStats statistics =
      allocator->getDeviceStats(device().index());
  const auto bytes_of = [](const c10::CachingAllocator::StatArray& statistic) {
    return statistic.at(kAll).current;
  };
  const std::int64_t cached = bytes_of(statistics.reserved_bytes) -
                              bytes_of(statistics.active_bytes) -
                              bytes_of(statistics.inactive_split_bytes);
  const auto [free, total] = *memory;
  return {{.bytes = static_cast<std::int64_t>(free) + std::max<std::int64_t>(0, cached),
           .total_bytes = static_cast<std::int64_t>(total),
           .limit = c10::str("free memory of ", device())}};
}

MemoryPeak AcceleratorMemory::take_peak() {
  const std::int64_t current = std::max<std::int64_t>(total_, 0);
  return {peak_.exchange(current), current};
}

// Asks the allocator where reports are missing, or seem to tell of a shortage: other threads may
// have freed memory since.
std::int64_t AcceleratorMemory::shortage(std::int64_t bytes) {
  const std::int64_t limit = limit_;
  if (limit == kNoLimit) {
    return 0;
  }
  const MemoryReports* const reports = MemoryReports::current();
  const bool is_known = reports != nullptr && reports->counts(*this);
  if (is_known && bytes <= limit - total_) {
    return 0;
  }
  return std::max<std::int64_t>(0, bytes - (limit - bytes_in_use()));
}

bool AcceleratorMemory::can_observe() const {
  return MemoryReports::current() != nullptr ||
         c10::ThreadLocalDebugInfo::get(kind_of_reports()) == nullptr;
}

std::unique_ptr<c10::DebugInfoGuard> AcceleratorMemory::observe(
    std::weak_ptr<BlockObserver> blocks) {
  return MemoryReports::begin(
      std::make_shared<MemoryReports>(std::vector{this}, std::move(blocks), device()));
}

std::unique_ptr<c10::DebugInfoGuard> MemoryReports::begin(std::shared_ptr<MemoryReports> reports) {
  const bool is_taken =
      current() == nullptr && c10::ThreadLocalDebugInfo::get(kind_of_reports()) != nullptr;
  return is_taken ? nullptr
                  : std::make_unique<c10::DebugInfoGuard>(kind_of_reports(), std::move(reports));
}

MemoryReports* MemoryReports::current() {
  return dynamic_cast<MemoryReports*>(c10::ThreadLocalDebugInfo::get(kind_of_reports()));
}

bool MemoryReports::counts(const AcceleratorMemory& source) const {
  return std::find(sources_.begin(), sources_.end(), &source) != sources_.end();
}

void MemoryReports::reportMemoryUsage(void* block, std::int64_t bytes, std::size_t total_allocated,
                                      std::size_t /*total_reserved*/, c10::Device device) {
  const auto total = static_cast<std::int64_t>(total_allocated);
  for (AcceleratorMemory* const source : sources_) {
    if (source->device() == device) {
      source->count(bytes, total);
    }
  }
  const auto blocks = device == blocks_device_ ? blocks_.lock() : nullptr;
  if (blocks != nullptr && bytes >= 0) {
    blocks->allocated(block, bytes, total);
  } else if (blocks != nullptr) {
    blocks->freed(block, -bytes);
  }
}

}  // namespace reprise::engine_internal
