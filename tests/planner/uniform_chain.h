// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Chains of equal operators, for which the optimum is known (Griewank and Walther, "Algorithm 799:
// revolve", 2000).
//
// Note [Revolve and the simulator]: t(n, c) counts all steps forward but those that backward itself
// takes, with c snapshots of which one is the input of the chain. Here
//   - the first sweep is the program's own forward: n - 1 steps of t(n, c) are no recomputation;
//   - the input exists before the step: c snapshots take c - 1 bytes beside its own;
//   - what backward of an operator reads takes 1 byte if it is no snapshot.
// An operator that runs holds its input and its result: 2 bytes beside the snapshots, or 1 if the
// input is a snapshot. If each operator of backward has a workspace of 1 byte, then a last snapshot
// that is read at once takes what another value that is read would: the budget c + 1 beside the
// input allows for c - 1 snapshots and what is read, and no more; the optimum is t(n, c) - (n - 1).
// Without the workspace a stretch of one or two operators gets by with less, and the optimum is
// that of the recursion in OptimumWithoutWorkspace.
#ifndef REPRISE_TESTS_PLANNER_UNIFORM_CHAIN_H_
#define REPRISE_TESTS_PLANNER_UNIFORM_CHAIN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise::testing {

inline constexpr std::int64_t kInputBytes = 1;  // of a uniform chain

// Each operator takes a second, and makes one byte.
inline planner::Trace uniform_chain(int operators, std::int64_t workspace_bytes) {
  planner::Trace trace;
  std::vector<planner::ValueId> values{trace.add_value({.bytes = kInputBytes})};
  for (int op = 0; op < operators; ++op) {
    values.push_back(trace.add_value({.bytes = 1, .released = std::min(op + 1, operators - 1)}));
    trace.operators.push_back(
        {.name = "forward", .seconds = 1, .reads = {values[op]}, .results = {values[op + 1]}});
  }
  trace.backward_begin = operators;
  for (int op = operators - 1; op >= 0; --op) {
    trace.operators.push_back({.name = "backward",
                               .seconds = 1,
                               .workspace_bytes = workspace_bytes,
                               .reads = {values[op]}});
  }
  return trace;
}

inline std::int64_t binomial(std::int64_t n, std::int64_t k) {
  std::int64_t result = 1;
  for (std::int64_t i = 1; i <= k; ++i) {
    result = result * (n - k + i) / i;
  }
  return result;
}

// Returns t(n, c) of the paper.
inline std::int64_t revolve_steps(std::int64_t n, std::int64_t c) {
  std::int64_t r = 0;
  while (binomial(c + r, c) < n) {
    ++r;
  }
  return r * n - binomial(c + r, c + 1);
}

// Returns the least operators that recomputation runs in a chain of `n` with `c` snapshots, of
// which one is the input.
inline std::int64_t revolve_recomputation(std::int64_t n, std::int64_t c) {
  return revolve_steps(n, c) - (n - 1);
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PLANNER_UNIFORM_CHAIN_H_
