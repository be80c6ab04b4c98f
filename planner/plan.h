// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: plan.h
//
// What becomes of each value of a trace between forward and backward: retained, recomputed, or put
// into a store. A plan says nothing about operators: those whose results are needed and not there
// run again.
//
//   Plan plan(trace);                       // recomputes everything
//   plan.choices[h] = Choice::retain();
//
// Thread-safety: value types; concurrent reads are safe.
#ifndef REPRISE_PLANNER_PLAN_H_
#define REPRISE_PLANNER_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise::planner {

// Where a value can be between forward and backward, other than whole in the step's own memory.
struct StoreOption {
  std::string name = {};
  double retained_fraction = 0;  // of a value's bytes, in the step's own memory
  // The same by value, where it depends on the value; 1: not to be put there. Empty: it does not.
  std::vector<float> retained_fractions = {};
  double put_seconds_per_byte = 0;  // to bring a value there
  double get_seconds_per_byte = 0;  // and back
  double latency_seconds = 0;       // per value and direction
  bool is_overlapped = false;  // copies run beside the computation, one at a time per direction
  std::int64_t smallest_bytes = 0;  // smaller values cannot be put there
  std::int64_t capacity_bytes = std::numeric_limits<std::int64_t>::max();  // of all values in it

  double fraction_of(ValueId value) const {
    return retained_fractions.empty() ? retained_fraction : retained_fractions.at(value);
  }
  // Returns whether a value of `bytes` may be put there.
  bool takes(ValueId value, std::int64_t bytes) const {
    return bytes >= smallest_bytes && bytes <= capacity_bytes &&
           (retained_fractions.empty() || retained_fractions.at(value) < 1);
  }
};

// A value is made once in forward, and once more each time that it is recomputed.
struct Choice {
  static constexpr std::uint8_t kNever = 255;

  // The first time that it is made from which on it stays until its last use: 0 in forward, 1 when
  // it is first recomputed, 2 when it is recomputed again, and so on. Before that it is freed as
  // soon as the request is met that it was recomputed for. Any schedule in which a value that is
  // retained stays until its last use is a plan, nested checkpointing included.
  std::uint8_t retained_from = 1;

  std::int8_t store = kNone;  // a position in the list of stores, for values retained from 0 on

  static constexpr Choice retain() { return {.retained_from = 0}; }
  static constexpr Choice recompute() { return {}; }
  static constexpr Choice put(int store) {
    return {.retained_from = 0, .store = static_cast<std::int8_t>(store)};
  }

  bool is_retained() const { return retained_from == 0; }

  friend bool operator==(const Choice&, const Choice&) = default;
};

struct Plan {
  Plan() = default;
  // Recomputes each value of `trace`.
  explicit Plan(const Trace& trace) : choices(trace.values.size()) {}

  friend bool operator==(const Plan&, const Plan&) = default;

  std::vector<Choice> choices;  // by value; of no effect for values that exist before the step
};

// Returns the plan that retains each value of forward which backward reads, as autograd does.
REPRISE_API Plan retain_all(const Trace& trace);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_PLAN_H_
