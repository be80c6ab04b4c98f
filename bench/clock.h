// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: clock.h
//
// The clocks that the benchmarks read.
#ifndef REPRISE_BENCH_CLOCK_H_
#define REPRISE_BENCH_CLOCK_H_

#include <ctime>

namespace reprise::bench {

// Of CLOCK_MONOTONIC, or of CLOCK_THREAD_CPUTIME_ID: the time for which this thread has had a core,
// which stands still while another process has it.
inline double read_microseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_CLOCK_H_
