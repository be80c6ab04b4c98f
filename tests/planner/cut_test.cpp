// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "reprise/planner/cut/retention_cut.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::cut_test {

using planner::Choice;
using planner::kNone;
using planner::OperatorId;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;
using planner_internal::Cut;
using planner_internal::Prices;
using planner_internal::RetentionCut;
using planner_internal::TraceFacts;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Multiples of 2^-10, so that sums are exact; some nothing, some infinite.
Prices random_prices(const Trace& trace, std::mt19937_64& random) {
  const auto price = [&random] { return static_cast<double>(random() % 200) / 1024; };
  Prices prices;
  for (std::size_t i = 0; i < trace.values.size(); ++i) {
    prices.retain.push_back(random() % 10 == 0 ? kInfinity : price());
  }
  for (std::size_t i = 0; i < trace.operators.size(); ++i) {
    prices.rerun.push_back(price());
  }
  return prices;
}

// The values that may have to be retained, and what it costs to retain some of them.
class Choices {
 public:
  Choices(const Trace& trace, OperatorId first)
      : trace_(trace), facts_(trace), first_(std::max(first, trace.backward_begin)) {
    for (ValueId value = 0; value < static_cast<ValueId>(trace.values.size()); ++value) {
      if (is_made_in_forward(value) && trace.values[value].released != kNone) {
        values_.push_back(value);
      }
    }
  }

  const std::vector<ValueId>& values() const { return values_; }

  Cut evaluate(const std::vector<bool>& is_kept, const Prices& prices) const {
    Cut cut{.is_retained = std::vector<bool>(trace_.values.size()),
            .is_rerun = std::vector<bool>(trace_.operators.size())};
    std::vector<ValueId> demanded;
    for (auto op = static_cast<std::size_t>(first_); op < trace_.operators.size(); ++op) {
      for (const ValueId value : trace_.operators[op].reads) {
        const OperatorId released = trace_.values[value].released;
        if (is_made_in_forward(value) && released != kNone &&
            released < static_cast<OperatorId>(op)) {
          demanded.push_back(value);
        }
      }
    }
    while (!demanded.empty()) {
      const ValueId value = demanded.back();
      demanded.pop_back();
      const OperatorId producer = facts_.producer[value];
      if (!is_made_in_forward(value) || trace_.values[value].released == kNone ||
          cut.is_retained[value] || cut.is_rerun[producer]) {
        continue;
      }
      if (is_kept[value]) {
        cut.is_retained[value] = true;
        cut.cost += prices.retain[value];
        continue;
      }
      cut.is_rerun[producer] = true;
      cut.cost += trace_.operators[producer].can_recompute ? prices.rerun[producer] : kInfinity;
      const std::vector<ValueId>& reads = trace_.operators[producer].reads;
      demanded.insert(demanded.end(), reads.begin(), reads.end());
    }
    return cut;
  }

  double least_cost(const Prices& prices) const {
    double least = kInfinity;
    for (std::uint32_t kept = 0; kept < 1U << values_.size(); ++kept) {
      std::vector<bool> is_kept(trace_.values.size());
      for (std::size_t i = 0; i < values_.size(); ++i) {
        is_kept[values_[i]] = ((kept >> i) & 1) == 1;
      }
      least = std::min(least, evaluate(is_kept, prices).cost);
    }
    return least;
  }

 private:
  bool is_made_in_forward(ValueId value) const {
    return facts_.producer[value] != kNone && facts_.producer[value] < trace_.backward_begin;
  }

  const Trace& trace_;
  TraceFacts facts_;
  OperatorId first_;
  std::vector<ValueId> values_;
};

Trace small_trace(std::uint64_t seed) {
  return random_trace(seed, {.forward_operators = 3 + static_cast<int>(seed % 6),
                             .in_place = 0.15,
                             .not_recomputable = 0.1,
                             .multi_result = 0.2,
                             .held = 0.15});
}

// Compares the cut with all choices for `prices`. Returns whether there is a finite one.
bool compare_with_all_choices(const Trace& trace, OperatorId first, const Prices& prices) {
  const TraceFacts facts(trace);
  const Choices choices(trace, first);
  const Cut cut = RetentionCut(trace, facts, first).solve(prices);
  const double least = choices.least_cost(prices);
  EXPECT_EQ(cut.cost, least);
  EXPECT_LE(cut.least_cost, least);
  if (least == kInfinity) {
    EXPECT_EQ(cut.least_cost, kInfinity);
    return false;
  }
  EXPECT_NEAR(cut.least_cost, least, 1e-12);
  const Cut evaluated = choices.evaluate(cut.is_retained, prices);
  EXPECT_EQ(evaluated.cost, least);
  EXPECT_EQ(evaluated.is_retained, cut.is_retained);
  EXPECT_EQ(evaluated.is_rerun, cut.is_rerun);
  return true;
}

TEST(RetentionCutTest, CostsAsMuchAsTheCheapestOfAllChoices) {
  std::mt19937_64 random(2);
  int finite = 0;
  int infinite = 0;
  for (std::uint64_t seed = 0; seed < 2000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Trace trace = small_trace(seed);
    if (Choices(trace, kNone).values().size() > 11) {
      continue;
    }
    // All of backward, and a part of it.
    const auto backward = static_cast<OperatorId>(trace.operators.size()) - trace.backward_begin;
    const auto first = static_cast<OperatorId>(random() % backward) + trace.backward_begin;
    for (const OperatorId each : {kNone, first}) {
      ++(compare_with_all_choices(trace, each, random_prices(trace, random)) ? finite : infinite);
    }
  }
  EXPECT_GT(finite, 2000);
  EXPECT_GT(infinite, 50);
}

TEST(RetentionCutTest, SimulatorRunsTheSameOperatorsAgain) {
  std::mt19937_64 random(3);
  int reruns = 0;
  for (std::uint64_t seed = 0; seed < 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Trace trace = random_trace(seed, {.forward_operators = 60, .held = 0});
    const TraceFacts facts(trace);
    Prices prices = random_prices(trace, random);
    for (std::size_t value = 0; value < prices.retain.size(); ++value) {
      prices.retain[value] =
          facts.overwriter[value] == kNone ? static_cast<double>(random() % 200) / 1024 : kInfinity;
    }
    const Cut cut = RetentionCut(trace, facts).solve(prices);
    ASSERT_LT(cut.cost, kInfinity);
    Plan plan(trace);
    double seconds = 0;
    for (std::size_t value = 0; value < plan.choices.size(); ++value) {
      plan.choices[value] = cut.is_retained[value] ? Choice::retain() : Choice::recompute();
    }
    for (std::size_t op = 0; op < cut.is_rerun.size(); ++op) {
      seconds += cut.is_rerun[op] ? trace.operators[op].seconds : 0;
      reruns += cut.is_rerun[op] ? 1 : 0;
    }
    const Simulation simulation = Simulator(trace).run(plan);
    ASSERT_TRUE(simulation.is_valid);
    EXPECT_EQ(simulation.recompute_seconds, seconds);
  }
  EXPECT_GT(reruns, 1000);
}

// x -> a -> b; backward reads b, and a.
Trace chain_trace() {
  Trace trace;
  const ValueId x = trace.add_value({.bytes = 8});
  const ValueId a = trace.add_value({.bytes = 8, .released = 1});
  const ValueId b = trace.add_value({.bytes = 8, .released = 1});
  trace.operators = {{.name = "a", .reads = {x}, .results = {a}},
                     {.name = "b", .reads = {a}, .results = {b}},
                     {.name = "b_backward", .reads = {b}, .results = {}},
                     {.name = "a_backward", .reads = {a}, .results = {}}};
  trace.backward_begin = 2;
  return trace;
}

TEST(RetentionCutTest, OperatorThatRunsAgainNeedsItsInputs) {
  const Trace trace = chain_trace();
  const TraceFacts facts(trace);
  const RetentionCut cut(trace, facts);
  const Cut dear = cut.solve({.retain = {9, 9, 9}, .rerun = {1, 2, 0, 0}});
  EXPECT_EQ(dear.is_rerun, std::vector<bool>({true, true, false, false}));
  EXPECT_EQ(dear.cost, 3);
  const Cut mixed = cut.solve({.retain = {9, 2, 9}, .rerun = {4, 5, 0, 0}});
  EXPECT_EQ(mixed.is_retained, std::vector<bool>({false, true, false}));
  EXPECT_EQ(mixed.is_rerun, std::vector<bool>({false, true, false, false}));
  EXPECT_EQ(mixed.cost, 7);
}

TEST(RetentionCutTest, RetainsRatherThanRunsAgainAtTheSamePrice) {
  const Trace trace = chain_trace();
  const TraceFacts facts(trace);
  const Cut cut = RetentionCut(trace, facts).solve({.retain = {2, 2, 2}, .rerun = {2, 2, 2, 2}});
  EXPECT_EQ(cut.is_retained, std::vector<bool>({false, true, true}));
  EXPECT_EQ(cut.is_rerun, std::vector<bool>(4));
}

TEST(RetentionCutTest, HeldValuesAreFreeForWhatReadsThemInTime) {
  Trace trace = chain_trace();
  trace.values[1].released = 3;  // by the operator that reads it
  const TraceFacts facts(trace);
  const RetentionCut cut(trace, facts);
  EXPECT_EQ(cut.solve({.retain = {9, 9, 3}, .rerun = {1, 5, 0, 0}}).cost, 3);
  // An operator that runs again may do so after it is released.
  EXPECT_EQ(cut.solve({.retain = {9, 9, 9}, .rerun = {1, 5, 0, 0}}).cost, 6);
  trace.values[1].released = kNone;
  EXPECT_EQ(RetentionCut(trace, facts).solve({.retain = {9, 9, 9}, .rerun = {1, 5, 0, 0}}).cost, 5);
}

TEST(RetentionCutTest, NoChoiceCostsInfinity) {
  Trace trace = chain_trace();
  trace.operators[1].can_recompute = false;
  const TraceFacts facts(trace);
  const Cut cut =
      RetentionCut(trace, facts).solve({.retain = {1, 1, kInfinity}, .rerun = {1, 1, 1, 1}});
  EXPECT_EQ(cut.cost, kInfinity);
  EXPECT_EQ(cut.least_cost, kInfinity);
}

}  // namespace reprise::testing::cut_test
