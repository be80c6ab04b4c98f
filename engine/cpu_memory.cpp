// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/cpu_memory.h"

#include <stdexcept>
#include <string>

#include "reprise/engine/allocation/cpu_allocations.h"
#include "reprise/engine/errors.h"

namespace reprise {

void install_cpu_memory_counter() { engine_internal::install_counting_allocator(); }

bool is_cpu_memory_counter_installed() noexcept {
  return engine_internal::is_counting_allocator_installed();
}

CpuMemory cpu_memory() noexcept { return engine_internal::counted_memory(); }

void reset_peak_cpu_memory() noexcept { engine_internal::reset_counted_peak(); }

void set_cpu_memory_limit(std::optional<std::int64_t> limit_bytes) {
  if (!is_cpu_memory_counter_installed()) {
    throw CheckpointError(
        "[set_cpu_memory_limit] the counter of CPU memory is not installed; call "
        "reprise::install_cpu_memory_counter() first, before the tensors that shall count are "
        "made");
  }
  if (limit_bytes && *limit_bytes < 0) {
    throw std::invalid_argument("[set_cpu_memory_limit] limit_bytes is " +
                                std::to_string(*limit_bytes) +
                                "; it must not be negative, std::nullopt lifts the limit");
  }
  engine_internal::set_cpu_limit(limit_bytes.value_or(engine_internal::kNoLimit));
}

}  // namespace reprise
