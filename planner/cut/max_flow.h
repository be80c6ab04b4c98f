// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Minimum cuts of a network whose edges stay and whose capacities change from call to call.
#ifndef REPRISE_PLANNER_CUT_MAX_FLOW_H_
#define REPRISE_PLANNER_CUT_MAX_FLOW_H_

#include <cstdint>
#include <vector>

namespace reprise::planner_internal {

struct FlowEdge {
  std::int32_t from = 0;
  std::int32_t to = 0;
};

// Finite capacities must sum up to less than kUnlimited / 2.
inline constexpr std::int64_t kUnlimited = std::int64_t{1} << 61;

struct MinCut {
  std::int64_t capacity = 0;  // of the cut, which is the maximum flow; kUnlimited if none is finite
  std::vector<bool> is_on_source_side;  // by node: of all minimum cuts, the one with the fewest
};

class FlowNetwork {
 public:
  // Nodes are numbered from 0 to `nodes` - 1. Several edges may join the same nodes.
  FlowNetwork(std::int32_t nodes, std::int32_t source, std::int32_t sink,
              const std::vector<FlowEdge>& edges);

  // Dinic's algorithm (1970), with integers alone: exact. `capacities`: by edge.
  MinCut min_cut(const std::vector<std::int64_t>& capacities) const;

 private:
  class Flow;

  // An edge in one of its two directions; those that leave a node are neighbours.
  struct Arc {
    std::int32_t head = 0;
    std::int32_t reverse = 0;
  };

  std::int32_t source_;
  std::int32_t sink_;
  std::vector<std::int32_t> first_arc_;  // by node, and the end
  std::vector<Arc> arcs_;
  std::vector<std::int32_t> arc_of_edge_;  // in its own direction
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CUT_MAX_FLOW_H_
