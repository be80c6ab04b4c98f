// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// From what is retained since when, to how often it has been made by then.
#ifndef REPRISE_PLANNER_CHAIN_PLAN_BUILDER_H_
#define REPRISE_PLANNER_CHAIN_PLAN_BUILDER_H_

#include <vector>

#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Returns the plan in which a value is retained from the first time on that it is made once
// backward has come down to the region `retained_since[value]`; from forward on if that is the
// number of regions, or if the value is pinned.
Plan build_plan(const Trace& trace, const TraceFacts& facts, const RegionChain& chain,
                std::vector<RegionId> retained_since);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_PLAN_BUILDER_H_
