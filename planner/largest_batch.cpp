// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/largest_batch.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "reprise/planner/planner.h"

namespace reprise::planner {
namespace {

bool are_of_one_step(const Trace& one, const Trace& other) {
  return one.backward_begin == other.backward_begin &&
         std::equal(one.operators.begin(), one.operators.end(), other.operators.begin(),
                    other.operators.end(),
                    [](const Operator& a, const Operator& b) {
                      return a.name == b.name && a.reads == b.reads && a.results == b.results;
                    }) &&
         std::equal(one.values.begin(), one.values.end(), other.values.begin(), other.values.end(),
                    [](const Value& a, const Value& b) {
                      return a.released == b.released && a.overwrites == b.overwrites;
                    });
}

void check(const BatchTrace& one, const BatchTrace& other) {
  if (one.batch <= 0 || other.batch <= 0 || one.batch == other.batch) {
    throw std::invalid_argument("largest_batch: the batches are " + std::to_string(one.batch) +
                                " and " + std::to_string(other.batch) +
                                ", not two different numbers above 0");
  }
  if (!are_of_one_step(*one.trace, *other.trace)) {
    throw std::invalid_argument("largest_batch: the traces of batches " +
                                std::to_string(one.batch) + " and " + std::to_string(other.batch) +
                                " have different operators or values");
  }
}

// The place of `batch` on the line from 0, one batch, to 1, the other.
class Line {
 public:
  Line(std::int64_t one, std::int64_t other, std::int64_t batch)
      : place_(static_cast<double>(batch - one) / static_cast<double>(other - one)) {}

  double at(double one, double other) const { return std::max(0.0, one + place_ * (other - one)); }
  std::int64_t at(std::int64_t one, std::int64_t other) const {
    return std::llround(at(static_cast<double>(one), static_cast<double>(other)));
  }

 private:
  double place_;
};

std::optional<LargestBatch> fit(const BatchTrace& one, const BatchTrace& other, std::int64_t batch,
                                const LargestBatchOptions& options) {
  const Trace trace = trace_for_batch(one, other, batch);
  Planner planner(trace);
  const std::optional<Solution> found = planner.plan(options.peak_bytes);
  if (!found || found->simulation.seconds > trace.seconds() * (1 + options.max_overhead)) {
    return std::nullopt;
  }
  return LargestBatch{batch, found->simulation, trace.seconds()};
}

}  // namespace

Trace trace_for_batch(const BatchTrace& one, const BatchTrace& other, std::int64_t batch) {
  check(one, other);
  if (batch <= 0) {
    throw std::invalid_argument("largest_batch: a batch of " + std::to_string(batch));
  }
  const Line line(one.batch, other.batch, batch);
  Trace trace = *one.trace;
  for (std::size_t i = 0; i < trace.values.size(); ++i) {
    trace.values[i].bytes = line.at(trace.values[i].bytes, other.trace->values[i].bytes);
  }
  for (std::size_t i = 0; i < trace.operators.size(); ++i) {
    Operator& op = trace.operators[i];
    const Operator& of_other = other.trace->operators[i];
    op.seconds = line.at(op.seconds, of_other.seconds);
    op.workspace_bytes = line.at(op.workspace_bytes, of_other.workspace_bytes);
  }
  return trace;
}

// Doubles the batch until it does not fit, and then halves the range.
std::optional<LargestBatch> find_largest_batch(const BatchTrace& one, const BatchTrace& other,
                                               const LargestBatchOptions& options) {
  std::optional<LargestBatch> best = fit(one, other, 1, options);
  if (!best) {
    return std::nullopt;
  }
  std::int64_t too_large = options.largest + 1;
  while (best->batch + 1 < too_large) {
    const bool is_doubling = too_large > options.largest;
    const std::int64_t next = is_doubling ? std::min(2 * best->batch, options.largest)
                                          : best->batch + (too_large - best->batch) / 2;
    if (auto fits = fit(one, other, next, options)) {
      best = std::move(fits);
    } else {
      too_large = next;
    }
  }
  return best;
}

}  // namespace reprise::planner
