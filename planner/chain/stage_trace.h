// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A region as a trace of its own, so that the simulator can say what it takes to run it again.
#ifndef REPRISE_PLANNER_CHAIN_STAGE_TRACE_H_
#define REPRISE_PLANNER_CHAIN_STAGE_TRACE_H_

#include <vector>

#include "reprise/planner/chain/ambient_memory.h"
#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// What comes after the region's part of forward.
enum class RegionTail {
  kBackward,  // its backward, with the ambient memory
  kSweep,     // a request of the inputs of the next region
};

// Where the inputs of the region are.
enum class RegionInputs {
  kKept,    // always there, and not counted
  kPassed,  // freed after their last use, by a first operator that makes them again
};

struct StageTrace {
  StageTrace(const Trace& whole, const RegionChain& chain, const AmbientMemory& ambient,
             RegionId region, RegionTail tail, RegionInputs inputs);

  Trace trace;
  std::vector<ValueId> original;  // by value of `trace`: that of the whole; or none
  std::vector<bool> is_output;    // by value of `trace`: an input of the next region
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_STAGE_TRACE_H_
