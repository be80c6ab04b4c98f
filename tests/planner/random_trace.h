// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Traces and plans made up from a seed. Equal for equal seeds, on each machine.
#ifndef REPRISE_TESTS_PLANNER_RANDOM_TRACE_H_
#define REPRISE_TESTS_PLANNER_RANDOM_TRACE_H_

#include <cstdint>

#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::testing {

struct RandomTraceOptions {
  int forward_operators = 20;
  int max_fan_in = 3;
  int layer_width = 4;  // operators mostly read what one layer before them made

  // Fractions of the operators of forward.
  double in_place = 0.1;
  double not_recomputable = 0.05;
  double multi_result = 0.15;

  // Fractions of the values that forward makes.
  double held = 0.05;  // by the program, into backward or to the end of the step
  double saved = 0.5;  // of what an operator reads and makes: for its backward

  std::int64_t max_bytes = 1024;
  std::int64_t max_workspace_bytes = 256;
};

// Returns a valid trace under which retain_all() is a valid plan. Times are multiples of 2^-20
// seconds, so that sums of them are exact in any order.
planner::Trace random_trace(std::uint64_t seed, const RandomTraceOptions& options = {});

// Returns a plan without stores that retains what cannot be recomputed and never what is
// overwritten; the other values by chance: retained, recomputed once, more often, or always.
planner::Plan random_plan(const planner::Trace& trace, std::uint64_t seed);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PLANNER_RANDOM_TRACE_H_
