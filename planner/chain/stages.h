// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What the dynamic programme needs to know of each region.
#ifndef REPRISE_PLANNER_CHAIN_STAGES_H_
#define REPRISE_PLANNER_CHAIN_STAGES_H_

#include <vector>

#include "reprise/planner/chain/ambient_memory.h"
#include "reprise/planner/chain/chain_program.h"
#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Returns a stage per region, with at most 12 options each: minimum cuts at rising prices per byte.
// Bytes are beside those of `ambient.base`.
std::vector<Stage> make_stages(const Trace& trace, const RegionChain& chain,
                               const AmbientMemory& ambient);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_STAGES_H_
