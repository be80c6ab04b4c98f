// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The memory that no choice of the dynamic programme changes.
#ifndef REPRISE_PLANNER_CHAIN_AMBIENT_MEMORY_H_
#define REPRISE_PLANNER_CHAIN_AMBIENT_MEMORY_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Bytes that the program holds, and values that are pinned.
struct AmbientMemory {
  AmbientMemory(const Trace& trace, const TraceFacts& facts, const RegionChain& chain);

  std::int64_t base = 0;             // at all times
  std::vector<std::int64_t> before;  // by operator: beside the base, without its results
  std::vector<std::int64_t> during;  // by operator: with its results and workspace
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_AMBIENT_MEMORY_H_
