// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: largest_batch.h
//
// The largest batch whose step fits into a budget of memory, predicted from the traces of two
// steps with different batches: bytes and times grow evenly with the batch.
//
// Not for models that run other operators with another batch, or choose other algorithms for it.
//
// Example:
//
//   const auto found = planner::find_largest_batch({.batch = 8, .trace = &trace_of_8},
//                                                  {.batch = 16, .trace = &trace_of_16},
//                                                  {.peak_bytes = 2LL << 30});
//   if (found) std::cout << found->batch << " samples a step\n";
//
// Thread-safety: thread-safe.
#ifndef REPRISE_PLANNER_LARGEST_BATCH_H_
#define REPRISE_PLANNER_LARGEST_BATCH_H_

#include <cstdint>
#include <limits>
#include <optional>

#include "reprise/base/export.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::planner {

// The step with a batch.
struct BatchTrace {
  std::int64_t batch;  // in samples, or any other unit
  const Trace* trace;
};

struct LargestBatchOptions {
  std::int64_t peak_bytes = 0;  // the budget

  // The most time for recomputation, as a part of the step without it.
  double max_overhead = std::numeric_limits<double>::infinity();

  std::int64_t largest = 1 << 20;  // no larger batch is considered
};

struct LargestBatch {
  std::int64_t batch;
  Simulation simulation;  // of its step, under the plan that fits
  double plain_seconds;   // of its step without recomputation
};

// Returns the trace of a step with `batch`, of which all bytes and times are those on the line
// through the two given ones; never below 0.
//
// Throws: std::invalid_argument unless the two have the same operators and values and different
//   batches, and all batches are positive.
[[nodiscard]] REPRISE_API Trace trace_for_batch(const BatchTrace& one, const BatchTrace& other,
                                                std::int64_t batch);

// Returns nothing if not even a batch of 1 fits.
//
// Throws: as trace_for_batch().
// Time: about twenty plans.
[[nodiscard]] REPRISE_API std::optional<LargestBatch> find_largest_batch(
    const BatchTrace& one, const BatchTrace& other, const LargestBatchOptions& options);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_LARGEST_BATCH_H_
