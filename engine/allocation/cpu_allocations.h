// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a memory budget needs of the counter of CPU memory (cpu_memory.h): a limit at which memory
// can be freed before an allocation fails, a peak of its own, and each block.
#ifndef REPRISE_ENGINE_ALLOCATION_CPU_ALLOCATIONS_H_
#define REPRISE_ENGINE_ALLOCATION_CPU_ALLOCATIONS_H_

#include <cstdint>

namespace reprise::engine_internal {

// Called on the thread that allocates or frees.
class CpuAllocationObserver {
 public:
  virtual ~CpuAllocationObserver() = default;

  // An allocation would exceed a limit by `bytes`. Returns whether any memory has been freed.
  virtual bool make_room(std::int64_t bytes) = 0;
  // An allocation of `bytes` is about to exceed the soft limit. May throw.
  virtual void exceed_soft_limit(std::int64_t bytes, std::int64_t bytes_in_use) = 0;

  // While blocks are reported.
  virtual void allocated(const void* block, std::int64_t bytes, std::int64_t bytes_in_use) = 0;
  virtual void freed(const void* block, std::int64_t bytes) = 0;
};

// The observer is never destroyed. To be called once.
void set_cpu_allocation_observer(CpuAllocationObserver* observer);

inline constexpr std::int64_t kNoSoftLimit = INT64_MAX;
void set_cpu_soft_limit(std::int64_t bytes);
void report_cpu_blocks(bool enabled);

// Returns the most bytes in use since the last call, and now.
struct CpuPeak {
  std::int64_t peak_bytes;
  std::int64_t current_bytes;
};
CpuPeak take_cpu_peak();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_ALLOCATION_CPU_ALLOCATIONS_H_
