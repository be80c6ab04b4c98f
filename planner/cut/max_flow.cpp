// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/max_flow.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace reprise::planner_internal {

FlowNetwork::FlowNetwork(std::int32_t nodes, std::int32_t source, std::int32_t sink,
                         const std::vector<FlowEdge>& edges)
    : source_(source), sink_(sink), first_arc_(nodes + 1), arcs_(edges.size() * 2) {
  for (const FlowEdge& edge : edges) {
    ++first_arc_[edge.from + 1];
    ++first_arc_[edge.to + 1];
  }
  std::partial_sum(first_arc_.begin(), first_arc_.end(), first_arc_.begin());
  std::vector<std::int32_t> next(first_arc_.begin(), first_arc_.end() - 1);
  arc_of_edge_.reserve(edges.size());
  for (const FlowEdge& edge : edges) {
    const std::int32_t forth = next[edge.from]++;
    const std::int32_t back = next[edge.to]++;
    arcs_[forth] = {.head = edge.to, .reverse = back};
    arcs_[back] = {.head = edge.from, .reverse = forth};
    arc_of_edge_.push_back(forth);
  }
}

// A flow that grows until it is the largest. No recursion: paths are as long as forward is.
class FlowNetwork::Flow {
 public:
  Flow(const FlowNetwork& network, const std::vector<std::int64_t>& capacities)
      : network_(network),
        residual_(network.arcs_.size()),
        distance_(network.first_arc_.size() - 1),
        next_arc_(network.first_arc_.size() - 1) {
    for (std::size_t edge = 0; edge < capacities.size(); ++edge) {
      residual_[network.arc_of_edge_[edge]] = capacities[edge];
    }
  }

  std::int64_t value() const { return value_; }

  void maximise() {
    while (value_ < kUnlimited && measure_distances()) {
      next_arc_.assign(network_.first_arc_.begin(), network_.first_arc_.end() - 1);
      block_shortest_paths();
    }
    value_ = std::min(value_, kUnlimited);
  }

  // Returns the nodes to which more could flow.
  std::vector<bool> reachable() {
    std::vector<bool> is_reached(distance_.size());
    is_reached[network_.source_] = true;
    queue_.assign(1, network_.source_);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      for (std::int32_t arc = begin(queue_[i]); arc < end(queue_[i]); ++arc) {
        const std::int32_t head = network_.arcs_[arc].head;
        if (residual_[arc] > 0 && !is_reached[head]) {
          is_reached[head] = true;
          queue_.push_back(head);
        }
      }
    }
    return is_reached;
  }

 private:
  std::int32_t begin(std::int32_t node) const { return network_.first_arc_[node]; }
  std::int32_t end(std::int32_t node) const { return network_.first_arc_[node + 1]; }
  std::int32_t tail(std::int32_t arc) const {
    return network_.arcs_[network_.arcs_[arc].reverse].head;
  }

  // To the sink, of the nodes no further from it than the source; kFar of others. Returns whether
  // the source reaches it.
  bool measure_distances() {
    std::fill(distance_.begin(), distance_.end(), kFar);
    distance_[network_.sink_] = 0;
    queue_.assign(1, network_.sink_);
    for (std::size_t i = 0; i < queue_.size() && distance_[network_.source_] == kFar; ++i) {
      const std::int32_t node = queue_[i];
      for (std::int32_t arc = begin(node); arc < end(node); ++arc) {
        const Arc& back = network_.arcs_[arc];
        if (distance_[back.head] == kFar && residual_[back.reverse] > 0) {
          distance_[back.head] = distance_[node] + 1;
          queue_.push_back(back.head);
        }
      }
    }
    return distance_[network_.source_] != kFar;
  }

  void block_shortest_paths() {
    path_.clear();
    std::int32_t node = network_.source_;
    while (value_ < kUnlimited) {
      if (node == network_.sink_) {
        node = push();
      } else if (const std::int32_t arc = arc_ahead(node); arc < end(node)) {
        path_.push_back(arc);
        node = network_.arcs_[arc].head;
      } else if (node == network_.source_) {
        return;
      } else {
        node = tail(path_.back());
        path_.pop_back();
        ++next_arc_[node];
      }
    }
  }

  // Returns the next arc by which `node` is nearer to the sink; the end of its arcs if there is
  // none.
  std::int32_t arc_ahead(std::int32_t node) {
    std::int32_t& arc = next_arc_[node];
    while (arc < end(node) &&
           (residual_[arc] == 0 || distance_[network_.arcs_[arc].head] != distance_[node] - 1)) {
      ++arc;
    }
    return arc;
  }

  // Fills the path to the sink. Returns the node from which on it is full.
  std::int32_t push() {
    std::int64_t amount = kUnlimited;
    std::size_t full = 0;
    for (std::size_t i = 0; i < path_.size(); ++i) {
      if (residual_[path_[i]] < amount) {
        amount = residual_[path_[i]];
        full = i;
      }
    }
    for (const std::int32_t arc : path_) {
      residual_[arc] -= amount;
      residual_[network_.arcs_[arc].reverse] += amount;
    }
    value_ += amount;
    const std::int32_t node = tail(path_[full]);
    path_.resize(full);
    return node;
  }

  static constexpr std::int32_t kFar = -2;  // not even one more than any distance

  const FlowNetwork& network_;
  std::vector<std::int64_t> residual_;  // by arc: how much more can flow
  std::vector<std::int32_t> distance_;  // by node
  std::vector<std::int32_t> next_arc_;  // by node: those before it lead nowhere
  std::vector<std::int32_t> path_;      // arcs
  std::vector<std::int32_t> queue_;     // nodes
  std::int64_t value_ = 0;
};

MinCut FlowNetwork::min_cut(const std::vector<std::int64_t>& capacities) const {
  Flow flow(*this, capacities);
  flow.maximise();
  return {.capacity = flow.value(), .is_on_source_side = flow.reachable()};
}

}  // namespace reprise::planner_internal
