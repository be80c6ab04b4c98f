// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory that no plan can do without.
#ifndef REPRISE_PLANNER_CUT_CERTAIN_MEMORY_H_
#define REPRISE_PLANNER_CUT_CERTAIN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// By operator, in bytes, in any plan.
struct CertainMemory {
  CertainMemory(const Trace& trace, const TraceFacts& facts);

  // From the end of the operator before it on: what the program holds then, and what existed before
  // the step and is read later. Less where results take over memory and are smaller.
  std::vector<std::int64_t> before;

  // While the program runs it: that, what else it reads, its results, and its workspace.
  std::vector<std::int64_t> during;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CUT_CERTAIN_MEMORY_H_
