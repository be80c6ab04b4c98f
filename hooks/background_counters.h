// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: background_counters.h
//
// Counters of the stores that work in the background, on threads of their own: see disk_store.h and
// compressed_store.h. Bytes are the tensors'.
//
// Thread-safety: thread-compatible.
#ifndef REPRISE_HOOKS_BACKGROUND_COUNTERS_H_
#define REPRISE_HOOKS_BACKGROUND_COUNTERS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace reprise {

struct BackgroundCounters {
  std::int64_t bytes_out = 0;     // written
  std::int64_t bytes_in = 0;      // read back
  std::int64_t bytes_reused = 0;  // requested while still in memory, or again
  std::int64_t bytes_forwarded = 0;
  std::int64_t waits = 0;                 // tensors requested before they were read back
  std::chrono::nanoseconds wait_time{0};  // of these requests
  std::chrono::nanoseconds put_time{0};   // in which put() waited for tensors in flight
  std::int64_t in_flight_bytes = 0;       // in memory, waiting to be written or being written
  std::int64_t resident_bytes = 0;        // in memory, of the tensors put last
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_BACKGROUND_COUNTERS_H_
