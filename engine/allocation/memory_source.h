// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory of one device, as a budget sees it.
//
// Note [Two sources]: the counter of CPU memory (cpu_memory.h) asks before each allocation, so that
// a limit is never exceeded. Accelerators have allocators of LibTorch's, which report an allocation
// when it has been made, under locks of their own: all that may be done there is to count. A limit
// is kept between operators.
#ifndef REPRISE_ENGINE_ALLOCATION_MEMORY_SOURCE_H_
#define REPRISE_ENGINE_ALLOCATION_MEMORY_SOURCE_H_

#include <c10/core/Device.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/engine/allocation/available_memory.h"

namespace reprise::engine_internal {

inline constexpr std::int64_t kNoLimit = INT64_MAX;

// Raises `peak` to `bytes`, unless it is higher.
inline void raise(std::atomic<std::int64_t>& peak, std::int64_t bytes) {
  std::int64_t known = peak.load(std::memory_order_relaxed);
  while (known < bytes && !peak.compare_exchange_weak(known, bytes, std::memory_order_relaxed)) {
  }
}

struct MemoryPeak {
  std::int64_t peak_bytes;     // since the last call
  std::int64_t current_bytes;  // as far as has been counted
};

// Receives each block of a device, on the thread that allocates or frees it, perhaps under a lock
// of its allocator.
class BlockObserver {
 public:
  virtual ~BlockObserver() = default;
  virtual void allocated(const void* block, std::int64_t bytes, std::int64_t bytes_in_use) = 0;
  virtual void freed(const void* block, std::int64_t bytes) = 0;
};

// Thread-safe. Lives as long as the process.
class MemorySource {
 public:
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  c10::Device device() const { return device_; }

  // Returns the bytes in use now. May ask LibTorch's allocator.
  virtual std::int64_t bytes_in_use() = 0;
  // Returns what each limit on the device's memory leaves beyond the bytes in use. Throws
  // c10::Error if none is known.
  virtual std::vector<AvailableMemory> available() = 0;
  // Returns the most bytes in use since the last call.
  virtual MemoryPeak take_peak() = 0;

  // The most bytes that may be in use; kNoLimit if there is none.
  virtual void set_limit(std::int64_t bytes) = 0;
  // Returns whether allocations beyond the limit are refused: see Note [Two sources].
  virtual bool keeps_limit() const = 0;
  // Returns by how much `bytes` more would exceed the limit; 0 if they would not, or could not.
  virtual std::int64_t shortage(std::int64_t bytes) = 0;

  // While blocks are to be reported to the observer of CPU memory, if they are not to that of a
  // thread.
  virtual void report_blocks(bool enabled) = 0;

  // Has the calling thread's memory counted, and reported to `blocks` unless that is null or has
  // gone. Returns null if that needs nothing, or if something else receives the thread's reports.
  virtual std::unique_ptr<c10::DebugInfoGuard> observe(std::weak_ptr<BlockObserver> blocks) = 0;
  // Returns whether the calling thread's blocks can be observed, or are.
  virtual bool can_observe() const = 0;

  // Returns the bytes that have come into use without having been reported, and counts them.
  virtual std::int64_t take_unreported() { return 0; }

  // What the calling thread allocates at once from begin_operator() on; 0 if it is not counted.
  virtual void begin_operator() {}
  virtual std::int64_t operator_bytes() const { return 0; }

 protected:
  explicit MemorySource(c10::Device device) : device_(device) {}
  ~MemorySource() = default;

 private:
  const c10::Device device_;
};

// Returns the device's source. device: has an index unless it is the CPU.
MemorySource& memory_source(c10::Device device);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_ALLOCATION_MEMORY_SOURCE_H_
