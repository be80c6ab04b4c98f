// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/ambient_memory.h"

#include <algorithm>
#include <cstddef>

namespace reprise::planner_internal {

AmbientMemory::AmbientMemory(const Trace& trace, const TraceFacts& facts,
                             const RegionChain& chain) {
  const auto operators = static_cast<OperatorId>(trace.operators.size());
  std::vector<std::int64_t> change(operators + 1);
  std::vector<std::int64_t> taken_over(operators);
  for (std::size_t value = 0; value < trace.values.size(); ++value) {
    const planner::Value& each = trace.values[value];
    const OperatorId made = facts.producer[value];
    OperatorId last = each.released == kNone ? operators - 1 : each.released;
    if (chain.is_pinned[value]) {
      last = std::max(last, chain.regions[chain.region_of[value]].backward_end - 1);
    }
    change[std::max(made, 0)] += each.bytes;
    change[last + 1] -= each.bytes;
    if (each.overwrites != kNone && made != kNone && !chain.is_pinned[each.overwrites]) {
      taken_over[made] += trace.values[each.overwrites].bytes;
    }
  }
  before.resize(operators);
  during.resize(operators);
  std::int64_t live = 0;
  for (OperatorId op = 0; op < operators; ++op) {
    live += change[op];
    before[op] = live;
    for (const ValueId result : trace.operators[op].results) {
      before[op] -= trace.values[result].bytes;
    }
    during[op] = live - taken_over[op] + trace.operators[op].workspace_bytes;
  }
  base = before.empty() ? 0 : *std::min_element(before.begin(), before.end());
  for (OperatorId op = 0; op < operators; ++op) {
    before[op] -= base;
    during[op] -= base;
  }
}

}  // namespace reprise::planner_internal
