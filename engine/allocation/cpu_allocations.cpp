// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/allocation/cpu_allocations.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/util/Exception.h>
#include <c10/util/numa.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>

namespace reprise::engine_internal {
namespace {

constexpr std::uint8_t kPriority = 100;  // above LibTorch's own allocators, which have 0

// Precedes each block; as long as LibTorch's alignment, which it thus preserves.
struct alignas(c10::gAlignment) BlockHeader {
  std::int64_t bytes;
  void* memory;  // of malloc(), that it is in; null: of LibTorch's allocator
};

struct Counters {
  std::atomic<std::int64_t> current{0};
  std::atomic<std::int64_t> peak{0};
  std::atomic<std::int64_t> allocations{0};
  std::atomic<std::int64_t> limit{kNoLimit};
  std::atomic<bool> installed{false};

  std::atomic<CpuAllocationObserver*> observer{nullptr};
  std::atomic<std::int64_t> soft_limit{kNoLimit};
  std::atomic<std::int64_t> taken_peak{0};
  std::atomic<bool> reports_blocks{false};
};

// Trivially destructible: blocks are freed after the destructors of statics have run.
constinit Counters counters;

void report_to_profiler(void* data, std::int64_t bytes) {
  if (c10::memoryProfilingEnabled()) {
    const auto current = static_cast<std::size_t>(counters.current.load(std::memory_order_relaxed));
    c10::reportMemoryUsageToProfiler(data, bytes, current, 0, c10::Device(c10::DeviceType::CPU));
  }
}

[[noreturn]] void throw_over_limit(std::int64_t bytes, std::int64_t current, std::int64_t limit) {
  if (c10::memoryProfilingEnabled()) {
    c10::reportOutOfMemoryToProfiler(bytes, static_cast<std::size_t>(current), 0,
                                     c10::Device(c10::DeviceType::CPU));
  }
  C10_THROW_ERROR(OutOfMemoryError,
                  "[cpu_memory] the limit on CPU tensors is reached: " + std::to_string(bytes) +
                      " bytes were asked for, " + std::to_string(current) +
                      " bytes are in use, the limit is " + std::to_string(limit) +
                      " bytes; free tensors, checkpoint more, or raise the limit with "
                      "reprise::set_cpu_memory_limit");
}

// Has memory freed that an allocation lacks. Returns false if there is none.
bool make_room(std::int64_t missing_bytes, std::int64_t bytes_after) {
  CpuAllocationObserver* const observer = counters.observer.load(std::memory_order_acquire);
  return observer != nullptr && observer->make_room(missing_bytes, bytes_after);
}

// Adds to the bytes in use, unless that would exceed the limit. In one step, so that a refused
// request never makes another one fail.
std::int64_t reserve(std::int64_t bytes) {
  std::int64_t current = counters.current.load(std::memory_order_relaxed);
  bool may_exceed = false;
  for (;;) {
    const std::int64_t limit = counters.limit.load(std::memory_order_relaxed);
    const std::int64_t soft = counters.soft_limit.load(std::memory_order_relaxed);
    if (bytes > limit - current) {
      if (!make_room(bytes - (limit - current), kNoLimit)) {
        if (bytes > soft - current) {
          counters.observer.load()->exceed_soft_limit(bytes, current);  // its error says more
        }
        throw_over_limit(bytes, current, limit);
      }
      current = counters.current.load(std::memory_order_relaxed);
    } else if (bytes > soft - current && !may_exceed) {
      if (!make_room(bytes - (soft - current), current + bytes)) {
        counters.observer.load()->exceed_soft_limit(bytes, current);
        may_exceed = true;
      }
      current = counters.current.load(std::memory_order_relaxed);
    } else if (counters.current.compare_exchange_weak(current, current + bytes,
                                                      std::memory_order_relaxed)) {
      return current + bytes;
    }
  }
}

void raise_peak(std::int64_t current) {
  raise(counters.peak, current);
  raise(counters.taken_peak, current);
}

// Returns the observer if it is to know of each block; null otherwise.
CpuAllocationObserver* block_observer() {
  return counters.reports_blocks.load(std::memory_order_acquire)
             ? counters.observer.load(std::memory_order_acquire)
             : nullptr;
}

void free_counted(void* data) {
  if (data == nullptr) {
    return;
  }
  auto* header = static_cast<BlockHeader*>(data) - 1;
  const std::int64_t bytes = header->bytes;
  counters.current.fetch_sub(bytes, std::memory_order_relaxed);
  report_to_profiler(data, -bytes);
  if (CpuAllocationObserver* const observer = block_observer()) {
    observer->freed(data, bytes);
  }
  if (void* const memory = header->memory) {
    std::free(memory);
  } else {
    c10::free_cpu(header);
  }
}

// As malloc() gives it: posix_memalign(), as in LibTorch's allocator, looks for more than the block
// takes, which a hole of the same size does not have. Steps would leave glibc with as many bytes in
// holes as in blocks. Returns null if there is no memory, or LibTorch's has properties of its own.
BlockHeader* allocate_from_malloc(std::size_t bytes) {
  static const bool kHasHugePages = std::getenv("THP_MEM_ALLOC_ENABLE") != nullptr;
  if (kHasHugePages || c10::IsNUMAEnabled()) {
    return nullptr;
  }
  std::size_t space = sizeof(BlockHeader) + bytes + alignof(BlockHeader) - 1;
  void* const memory = std::malloc(space);
  if (memory == nullptr) {
    return nullptr;
  }
  void* aligned = memory;
  std::align(alignof(BlockHeader), sizeof(BlockHeader) + bytes, aligned, space);
  return new (aligned) BlockHeader{static_cast<std::int64_t>(bytes), memory};
}

// A limit on the process's memory, or holes that are too small, can leave less than was counted.
BlockHeader* allocate_block(std::size_t bytes) {
  for (;;) {
    if (BlockHeader* const block = allocate_from_malloc(bytes)) {
      return block;
    }
    try {
      void* const memory = c10::alloc_cpu(bytes + sizeof(BlockHeader));
      return new (memory) BlockHeader{static_cast<std::int64_t>(bytes), nullptr};
    } catch (const c10::Error&) {
      if (!make_room(static_cast<std::int64_t>(bytes), kNoLimit)) {
        throw;
      }
    }
  }
}

void* allocate_counted(std::size_t size) {
  constexpr std::size_t kMaxBytes = static_cast<std::size_t>(kNoLimit) - 2 * sizeof(BlockHeader);
  TORCH_CHECK_WITH(OutOfMemoryError, size <= kMaxBytes, "[cpu_memory] ", size,
                   " bytes were asked for, which no machine has; check the sizes of the tensor");
  const auto bytes = static_cast<std::int64_t>(size);
  const std::int64_t current = reserve(bytes);
  BlockHeader* block = nullptr;
  try {
    block = allocate_block(size);
  } catch (...) {
    counters.current.fetch_sub(bytes, std::memory_order_relaxed);
    throw;
  }
  raise_peak(current);
  counters.allocations.fetch_add(1, std::memory_order_relaxed);
  void* data = block + 1;
  report_to_profiler(data, bytes);
  if (CpuAllocationObserver* const observer = block_observer()) {
    observer->allocated(data, bytes, current);
  }
  return data;
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    void* data = size == 0 ? nullptr : allocate_counted(size);
    return {data, data, &free_counted, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_counted; }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

}  // namespace

void install_counting_allocator() {
  // Never destroyed: LibTorch retains the pointer.
  static const bool kInstalled = [] {
    c10::SetCPUAllocator(new CountingAllocator, kPriority);
    counters.installed.store(true, std::memory_order_release);
    return true;
  }();
  static_cast<void>(kInstalled);
}

bool is_counting_allocator_installed() noexcept {
  return counters.installed.load(std::memory_order_acquire);
}

CpuMemory counted_memory() noexcept {
  return {.current_bytes = counters.current.load(std::memory_order_relaxed),
          .peak_bytes = counters.peak.load(std::memory_order_relaxed),
          .allocations = counters.allocations.load(std::memory_order_relaxed)};
}

void reset_counted_peak() noexcept {
  counters.peak.store(counters.current.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void set_cpu_limit(std::int64_t bytes) { counters.limit.store(bytes, std::memory_order_relaxed); }
std::int64_t cpu_limit() noexcept { return counters.limit.load(std::memory_order_relaxed); }

void set_cpu_allocation_observer(CpuAllocationObserver* observer) {
  counters.observer.store(observer, std::memory_order_release);
}

void set_cpu_soft_limit(std::int64_t bytes) {
  counters.soft_limit.store(bytes, std::memory_order_relaxed);
}

void report_cpu_blocks(bool enabled) {
  counters.reports_blocks.store(enabled, std::memory_order_release);
}

MemoryPeak take_cpu_peak() {
  const std::int64_t current = counters.current.load(std::memory_order_relaxed);
  return {counters.taken_peak.exchange(current, std::memory_order_relaxed), current};
}

}  // namespace reprise::engine_internal
