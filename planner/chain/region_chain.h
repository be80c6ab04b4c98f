// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A trace as a chain of regions: consecutive operators of forward, with few bytes crossing from one
// region to the next, and the operators of backward that belong to each.
#ifndef REPRISE_PLANNER_CHAIN_REGION_CHAIN_H_
#define REPRISE_PLANNER_CHAIN_REGION_CHAIN_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

using RegionId = std::int32_t;

struct Region {
  OperatorId begin = 0;  // of forward
  OperatorId end = 0;
  OperatorId backward_begin = 0;  // of backward; the last region comes first
  OperatorId backward_end = 0;
  std::vector<ValueId> inputs;  // made before it, and read by it or by a later region
};

struct RegionChain {
  std::vector<Region> regions;
  std::vector<RegionId> region_of;  // by value; none: not made in forward

  // By value: always retained, because it cannot be recomputed or crosses many regions.
  std::vector<bool> is_pinned;

  // By value: there when backward begins, without being retained.
  std::vector<bool> is_free;

  bool must_be_kept(ValueId value) const { return !is_pinned[value] && !is_free[value]; }
};

// How to cut.
struct ChainShape {
  // A cut is where no fewer bytes cross anywhere within so many operators.
  std::int32_t window = 1;
  // A value that is read more than so many operators after it is made is pinned.
  std::int32_t longest_span = 0;
  std::int32_t most_regions = 0;

  friend bool operator==(const ChainShape&, const ChainShape&) = default;
};

// Returns at most shape.most_regions; a single one if there is no place to cut.
RegionChain cut_into_regions(const Trace& trace, const TraceFacts& facts, const ChainShape& shape);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_REGION_CHAIN_H_
