// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: cpu_memory.h
//
// Counts the bytes of LibTorch's CPU tensors exactly, over all threads, and can enforce a limit.
// LibTorch itself has no such counter for the CPU. The counter replaces the process's CPU allocator
// with one that takes blocks from malloc(), and adds to each a 64-byte header and up to 63 bytes to
// align it; it cannot be removed. Under THP_MEM_ALLOC_ENABLE or LibTorch's NUMA option the blocks
// are LibTorch's own.
//
// Not for programs that install their own CPU allocator.
//
// Example:
//
//   reprise::install_cpu_memory_counter();
//   reprise::set_cpu_memory_limit(200 << 20);
//   auto before = reprise::cpu_memory().current_bytes;
//
// Thread-safety: thread-safe; a few atomic operations per allocation.
#ifndef REPRISE_ENGINE_CPU_MEMORY_H_
#define REPRISE_ENGINE_CPU_MEMORY_H_

#include <cstdint>
#include <optional>

#include "reprise/base/export.h"

namespace reprise {

struct CpuMemory {
  std::int64_t current_bytes = 0;  // requested by tensors, without padding
  std::int64_t peak_bytes = 0;     // since the start or the last reset
  std::int64_t allocations = 0;    // blocks allocated since the start, monotone
};

// Installs the counter, once per process; later calls have no effect. Existing blocks are not
// counted, nor is freeing them; an existing tensor that is resized stays with its allocator.
REPRISE_API void install_cpu_memory_counter();

[[nodiscard]] REPRISE_API bool is_cpu_memory_counter_installed() noexcept;

// Returns the counts, all zero if the counter is not installed.
[[nodiscard]] REPRISE_API CpuMemory cpu_memory() noexcept;

// Resets the peak to the current bytes.
REPRISE_API void reset_peak_cpu_memory() noexcept;

// From now on an allocation that would bring the current bytes above `limit_bytes` throws a
// c10::OutOfMemoryError with the requested bytes, the bytes in use, and the limit; std::nullopt
// removes the limit. Exact also if several threads allocate at once. A limit below the current
// bytes is allowed: allocations then fail until enough is freed.
//
// Throws: CheckpointError if the counter is not installed; std::invalid_argument for a negative
//   limit.
REPRISE_API void set_cpu_memory_limit(std::optional<std::int64_t> limit_bytes);

}  // namespace reprise

#endif  // REPRISE_ENGINE_CPU_MEMORY_H_
