// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Lets bench/side_by_side count the bytes of a Python process as our programs count theirs: called
// through ctypes.
#include <cstdint>

#include "reprise/engine/cpu_memory.h"

extern "C" {

[[gnu::visibility("default")]] void reprise_install_counter() {
  reprise::install_cpu_memory_counter();
}

[[gnu::visibility("default")]] std::int64_t reprise_current_bytes() {
  return reprise::cpu_memory().current_bytes;
}

[[gnu::visibility("default")]] std::int64_t reprise_peak_bytes() {
  return reprise::cpu_memory().peak_bytes;
}

[[gnu::visibility("default")]] void reprise_reset_peak() { reprise::reset_peak_cpu_memory(); }

}  // extern "C"
