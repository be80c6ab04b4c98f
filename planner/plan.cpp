// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/plan.h"

#include <cstddef>

namespace reprise::planner {

Plan retain_all(const Trace& trace) {
  Plan plan(trace);
  for (std::size_t op = trace.backward_begin; op < trace.operators.size(); ++op) {
    for (const ValueId value : trace.operators[op].reads) {
      plan.choices[value] = Choice::retain();
    }
  }
  return plan;
}

}  // namespace reprise::planner
