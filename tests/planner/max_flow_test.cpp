// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/max_flow.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace reprise::testing::max_flow_test {

using planner_internal::FlowEdge;
using planner_internal::FlowNetwork;
using planner_internal::kUnlimited;
using planner_internal::MinCut;

struct Problem {
  std::int32_t nodes = 0;  // the first is the source, the last the sink
  std::vector<FlowEdge> edges;
  std::vector<std::int64_t> capacities;

  // `side`: a bit per node on the side of the source.
  std::int64_t capacity_of(std::uint32_t side) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < edges.size(); ++i) {
      if (((side >> edges[i].from) & 1) == 1 && ((side >> edges[i].to) & 1) == 0) {
        sum = std::min(kUnlimited, sum + capacities[i]);
      }
    }
    return sum;
  }

  MinCut solve() const { return FlowNetwork(nodes, 0, nodes - 1, edges).min_cut(capacities); }
};

Problem random_problem(std::mt19937_64& random) {
  Problem problem;
  problem.nodes = 2 + static_cast<std::int32_t>(random() % 7);
  const std::size_t edges = random() % 24;
  for (std::size_t i = 0; i < edges; ++i) {
    problem.edges.push_back({.from = static_cast<std::int32_t>(random() % problem.nodes),
                             .to = static_cast<std::int32_t>(random() % problem.nodes)});
    const auto capacity = static_cast<std::int64_t>(random() % 12);
    problem.capacities.push_back(capacity == 11 ? kUnlimited : capacity);
  }
  return problem;
}

TEST(MaxFlowTest, EqualsTheSmallestOfAllCuts) {
  std::mt19937_64 random(1);
  int finite = 0;
  int unlimited = 0;
  for (int round = 0; round < 2000; ++round) {
    const Problem problem = random_problem(random);
    std::int64_t least = kUnlimited;
    std::uint32_t smallest_side = ~0U;  // what is on the source's side in all minimum cuts
    for (std::uint32_t inner = 0; inner < 1U << (problem.nodes - 2); ++inner) {
      const std::uint32_t side = inner << 1 | 1;
      const std::int64_t capacity = problem.capacity_of(side);
      smallest_side = capacity < least ? side : smallest_side;
      smallest_side &= capacity == least ? side : ~0U;
      least = std::min(least, capacity);
    }
    const MinCut cut = problem.solve();
    ASSERT_EQ(cut.capacity, least) << round;
    if (least == kUnlimited) {
      ++unlimited;
      continue;
    }
    ++finite;
    for (std::int32_t node = 0; node < problem.nodes; ++node) {
      ASSERT_EQ(cut.is_on_source_side[node], ((smallest_side >> node) & 1) == 1) << round;
    }
  }
  EXPECT_GT(finite, 500);
  EXPECT_GT(unlimited, 100);
}

TEST(MaxFlowTest, SendsFlowBackWhereAPathWasWrong) {
  // The shortest path, 0-1-2-5, must give way to 0-1-4-5 and 0-3-2-5.
  const Problem problem{
      .nodes = 6,
      .edges = {{0, 1}, {1, 2}, {2, 5}, {0, 3}, {3, 2}, {1, 4}, {4, 5}},
      .capacities = {7, 7, 7, 7, 7, 7, 7},
  };
  EXPECT_EQ(problem.solve().capacity, 14);
}

TEST(MaxFlowTest, NetworkServesManyCapacities) {
  const FlowNetwork network(3, 0, 2, {{0, 1}, {1, 2}});
  EXPECT_EQ(network.min_cut({3, 5}).capacity, 3);
  EXPECT_EQ(network.min_cut({5, 3}).capacity, 3);
  EXPECT_TRUE(network.min_cut({5, 3}).is_on_source_side[1]);
  EXPECT_FALSE(network.min_cut({3, 5}).is_on_source_side[1]);
}

TEST(MaxFlowTest, LargeCapacitiesAreExact) {
  const std::int64_t large = (std::int64_t{1} << 59) + 1;
  const FlowNetwork network(3, 0, 2, {{0, 1}, {1, 2}, {1, 2}});
  EXPECT_EQ(network.min_cut({kUnlimited, large, 1}).capacity, large + 1);
  EXPECT_EQ(network.min_cut({kUnlimited, kUnlimited, 1}).capacity, kUnlimited);
}

TEST(MaxFlowTest, LongPathsNeedNoStack) {
  constexpr std::int32_t kNodes = 1'000'000;
  std::vector<FlowEdge> edges;
  std::vector<std::int64_t> capacities;
  for (std::int32_t node = 0; node + 1 < kNodes; ++node) {
    edges.push_back({.from = node, .to = node + 1});
    capacities.push_back(node == kNodes / 2 ? 4 : 9);
  }
  const MinCut cut = FlowNetwork(kNodes, 0, kNodes - 1, edges).min_cut(capacities);
  EXPECT_EQ(cut.capacity, 4);
  EXPECT_EQ(std::count(cut.is_on_source_side.begin(), cut.is_on_source_side.end(), true),
            kNodes / 2 + 1);
}

}  // namespace reprise::testing::max_flow_test
