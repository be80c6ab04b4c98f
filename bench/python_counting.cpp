// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Lets a Python process say when callgrind counts: called through ctypes.
#include <valgrind/callgrind.h>

extern "C" {

[[gnu::visibility("default")]] void reprise_start_counting() {
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
}

// The instructions since the start are dumped under this name.
[[gnu::visibility("default")]] void reprise_stop_counting(const char* name) {
  CALLGRIND_DUMP_STATS_AT(name);
  CALLGRIND_STOP_INSTRUMENTATION;
}

}  // extern "C"
