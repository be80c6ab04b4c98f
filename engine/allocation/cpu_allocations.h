// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The allocator that counts CPU memory for cpu_memory.h, and, for memory budgets, a limit at which
// memory can be freed before an allocation fails, a peak of their own, and each block.
#ifndef REPRISE_ENGINE_ALLOCATION_CPU_ALLOCATIONS_H_
#define REPRISE_ENGINE_ALLOCATION_CPU_ALLOCATIONS_H_

#include <cstdint>

#include "reprise/engine/allocation/memory_source.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::engine_internal {

// Called on the thread that allocates or frees; of blocks, while they are reported.
class CpuAllocationObserver : public BlockObserver {
 public:
  // An allocation would exceed a limit by `bytes`, as there would be `bytes_after` in use; kNoLimit
  // if it is not the soft one. Returns whether any memory has been freed.
  virtual bool make_room(std::int64_t bytes, std::int64_t bytes_after) = 0;
  // An allocation of `bytes` is about to exceed the soft limit. May throw.
  virtual void exceed_soft_limit(std::int64_t bytes, std::int64_t bytes_in_use) = 0;
};

// See cpu_memory.h.
void install_counting_allocator();
bool is_counting_allocator_installed() noexcept;
CpuMemory counted_memory() noexcept;
void reset_counted_peak() noexcept;
void set_cpu_limit(std::int64_t bytes);  // kNoLimit: none
std::int64_t cpu_limit() noexcept;

// The observer is never destroyed. To be called once.
void set_cpu_allocation_observer(CpuAllocationObserver* observer);

void set_cpu_soft_limit(std::int64_t bytes);  // kNoLimit: none
void report_cpu_blocks(bool enabled);

MemoryPeak take_cpu_peak();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_ALLOCATION_CPU_ALLOCATIONS_H_
