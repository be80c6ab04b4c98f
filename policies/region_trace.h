// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: region_trace.h
//
// A region's forward as a planner sees it, for policies that plan what the next run of the region
// saves; see Policy::end_region().
//
// Not for policies that decide by operator, name or shape alone: PolicyContext says all that they
// need.
//
// Example:
//
//   void end_region(const std::function<RegionTrace()>& trace) override {
//     RegionTrace region = trace();
//     for (std::size_t i = 0; i < region.ordinals.size(); ++i) {
//       region.trace.operators[i].seconds = seconds_of_call_[region.ordinals[i]];
//     }
//     ...
//   }
//
// Thread-safety: a value type; concurrent reads are safe.
#ifndef REPRISE_POLICIES_REGION_TRACE_H_
#define REPRISE_POLICIES_REGION_TRACE_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise {

struct RegionTrace {
  // The operators of forward, without times. Each makes one value, which has the operator's number
  // and stands for all that the operator makes or writes in place, without bytes. Then one operator
  // of backward, which reads the values that autograd has saved. Tensors from outside, and inputs,
  // are no values. `can_recompute` is false for transfers between ranks, which all ranks repeat
  // alike.
  planner::Trace trace;

  // By operator of forward, ascending: see PolicyContext::ordinal().
  std::vector<std::int64_t> ordinals;

  // By value: whether replays can be supplied with it. False if a later operator writes to its
  // memory, for constants such as zeros(), and unless the policy was asked.
  std::vector<bool> may_save;
};

}  // namespace reprise

#endif  // REPRISE_POLICIES_REGION_TRACE_H_
