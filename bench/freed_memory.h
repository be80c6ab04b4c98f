// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Freed memory of a benchmark's process.
#ifndef REPRISE_BENCH_FREED_MEMORY_H_
#define REPRISE_BENCH_FREED_MEMORY_H_

#include <malloc.h>

#include <limits>

namespace reprise::bench {

// Keeps freed memory in the process: steps after smaller ones do not pay for its pages again.
inline void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_FREED_MEMORY_H_
