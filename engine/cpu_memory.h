// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: cpu_memory.h
//
// Counts the bytes of LibTorch's CPU tensors exactly, over all threads, and can refuse to go above
// a limit. LibTorch itself keeps no such count for the CPU. The counter replaces the process's CPU
// allocator by one that adds a 64-byte header to each block; it cannot be taken out again.
//
// Not for programs that install a CPU allocator of their own.
//
// Example:
//
//   reprise::install_cpu_memory_counter();
//   reprise::set_cpu_memory_limit(200 << 20);
//   auto before = reprise::cpu_memory().current_bytes;
//
// Thread-safety: thread-safe; a few atomic operations an allocation.
#ifndef REPRISE_ENGINE_CPU_MEMORY_H_
#define REPRISE_ENGINE_CPU_MEMORY_H_

#include <cstdint>
#include <optional>

#include "reprise/base/export.h"

namespace reprise {

struct CpuMemory {
  std::int64_t current_bytes = 0;  // as asked for by tensors, without padding
  std::int64_t peak_bytes = 0;     // since the start or the last reset
  std::int64_t allocations = 0;    // blocks handed out since the start, monotone
};

// Installs the counter, once a process; later calls do nothing. Blocks that exist already are not
// counted, nor is freeing them; a tensor made before stays with the allocator it has when resized.
REPRISE_API void install_cpu_memory_counter();

[[nodiscard]] REPRISE_API bool is_cpu_memory_counter_installed() noexcept;

// All zero if the counter is not installed.
[[nodiscard]] REPRISE_API CpuMemory cpu_memory() noexcept;

// Makes the current bytes the peak.
REPRISE_API void reset_peak_cpu_memory() noexcept;

// An allocation that would bring the current bytes above `limit_bytes` throws c10::OutOfMemoryError
// that says how much was asked for, how much is in use, and the limit; std::nullopt lifts it.
// Exact also when several threads allocate at once. A limit below the current bytes is allowed:
// then nothing more can be allocated until enough is freed. Throws CheckpointError if the counter
// is not installed, std::invalid_argument for a negative limit.
REPRISE_API void set_cpu_memory_limit(std::optional<std::int64_t> limit_bytes);

}  // namespace reprise

#endif  // REPRISE_ENGINE_CPU_MEMORY_H_
