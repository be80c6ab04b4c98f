// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "reprise/planner/chain/chain_planner.h"
#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/model_traces.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::chain_test {
namespace {

using planner::Choice;
using planner::kNone;
using planner::OperatorId;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;
using planner_internal::ChainPlanner;
using planner_internal::cut_into_regions;
using planner_internal::RegionChain;
using planner_internal::TraceFacts;

constexpr double kInfinite = std::numeric_limits<double>::infinity();

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int between(int least, int most) {
    return least + static_cast<int>(engine_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool with_percent(int percent) { return between(1, 100) <= percent; }

 private:
  std::mt19937_64 engine_;
};

// A step whose forward is made operator by operator; backward of each reads what it saves, and
// makes a gradient for the one before.
class ChainBuilder {
 public:
  explicit ChainBuilder(std::int64_t input_bytes) { add_value(input_bytes); }

  ValueId input() const { return 0; }

  ValueId add(std::vector<ValueId> reads, std::vector<ValueId> saved, bool saves_result,
              std::int64_t bytes, double seconds, std::int64_t workspace_bytes = 0) {
    const ValueId result = add_value(bytes);
    if (saves_result) {
      saved.push_back(result);
    }
    saved_.push_back(std::move(saved));
    trace_.operators.push_back({.name = "forward",
                                .seconds = seconds,
                                .workspace_bytes = workspace_bytes,
                                .reads = std::move(reads),
                                .results = {result}});
    return result;
  }

  Trace build(std::int64_t gradient_bytes) {
    Trace trace = trace_;
    trace.backward_begin = static_cast<OperatorId>(trace.operators.size());
    for (OperatorId op = 0; op < trace.backward_begin; ++op) {
      for (const ValueId value : trace.operators[op].reads) {
        trace.values[value].released = value == input() ? kNone : op;
      }
      trace.values[trace.operators[op].results.front()].released = op;
    }
    ValueId gradient = kNone;
    for (OperatorId op = trace.backward_begin - 1; op >= 0; --op) {
      planner::Operator backward{.name = "backward", .seconds = 1, .reads = saved_[op]};
      const auto now = static_cast<OperatorId>(trace.operators.size());
      if (gradient != kNone) {
        backward.reads.push_back(gradient);
        trace.values[gradient].released = now;
      }
      gradient = trace.add_value({.bytes = gradient_bytes, .released = now});
      backward.results = {gradient};
      trace.operators.push_back(std::move(backward));
    }
    return trace;
  }

 private:
  ValueId add_value(std::int64_t bytes) { return trace_.add_value({.bytes = bytes}); }

  Trace trace_;
  std::vector<std::vector<ValueId>> saved_;  // by operator of forward
};

// Single operators of unequal time and size.
Trace random_chain(std::uint64_t seed, int operators) {
  Random random(seed);
  ChainBuilder builder(0);
  ValueId value = builder.input();
  for (int op = 0; op < operators; ++op) {
    const bool saves_read = random.with_percent(80);
    value = builder.add({value}, saves_read ? std::vector{value} : std::vector<ValueId>{},
                        random.with_percent(40), random.between(1, 9), random.between(1, 9),
                        random.between(0, 4));
  }
  return builder.build(random.between(0, 4));
}

// Blocks of two operators with a value of their own between them, and a connection past it.
Trace random_blocks(std::uint64_t seed, int blocks) {
  Random random(seed);
  ChainBuilder builder(0);
  ValueId value = builder.input();
  for (int block = 0; block < blocks; ++block) {
    const ValueId inside = builder.add({value}, {value}, random.with_percent(40),
                                       random.between(3, 20), random.between(1, 9));
    value = builder.add({inside, value}, {inside}, random.with_percent(30), random.between(1, 5),
                        random.between(1, 9));
  }
  return builder.build(random.between(0, 4));
}

// The way up reads what the way down has made.
Trace u_shape(int levels) {
  ChainBuilder builder(1);
  std::vector<ValueId> down{builder.input()};
  for (int level = 0; level < 2 * levels; ++level) {
    down.push_back(builder.add({down.back()}, {down.back()}, true, 64 >> (level / 2), 2));
  }
  ValueId up = down.back();
  for (int level = 2 * levels - 1; level > 0; --level) {
    const ValueId skip = down[level];
    const std::vector<ValueId> reads = level % 2 == 1 ? std::vector{up, skip} : std::vector{up};
    up = builder.add(reads, reads, true, 64 >> (level / 2), 2);
  }
  return builder.build(4);
}

Trace unit_chain(int operators) {
  ChainBuilder builder(0);
  ValueId value = builder.input();
  for (int op = 0; op < operators; ++op) {
    value = builder.add({value}, {value}, false, 1, 1);
  }
  return builder.build(0);
}

// The least of the plans that fit; infinity if none does.
double best_of_chains(const Trace& trace, std::int64_t peak_bytes) {
  const Simulator simulator(trace);
  double best = kInfinite;
  for (const Plan& plan : ChainPlanner(simulator, TraceFacts(trace)).plans(peak_bytes)) {
    const Simulation result = simulator.run(plan);
    EXPECT_TRUE(result.is_valid);
    if (result.peak_bytes <= peak_bytes) {
      best = std::min(best, result.recompute_seconds);
    }
  }
  return best;
}

// The least recomputation of any plan within each of `budgets`, with choices of `kinds`.
std::vector<double> exhaustive_optimum(const Trace& trace, const std::vector<std::int64_t>& budgets,
                                       const std::vector<std::uint8_t>& kinds) {
  const Simulator simulator(trace);
  const TraceFacts facts(trace);
  std::vector<ValueId> values;
  for (ValueId value = 0; value < static_cast<ValueId>(trace.values.size()); ++value) {
    if (facts.producer[value] != kNone && facts.producer[value] < trace.backward_begin) {
      values.push_back(value);
    }
  }
  std::vector<double> best(budgets.size(), kInfinite);
  Plan plan(trace);
  std::vector<std::size_t> digits(values.size());
  while (true) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      plan.choices[values[i]].retained_from = kinds[digits[i]];
    }
    const Simulation result = simulator.run(plan);
    for (std::size_t i = 0; i < budgets.size(); ++i) {
      if (result.is_valid && result.peak_bytes <= budgets[i]) {
        best[i] = std::min(best[i], result.recompute_seconds);
      }
    }
    std::size_t digit = 0;
    while (digit < digits.size() && ++digits[digit] == kinds.size()) {
      digits[digit++] = 0;
    }
    if (digit == digits.size()) {
      return best;
    }
  }
}

struct Comparison {
  int solvable = 0;  // budgets that any plan fits
  int missed = 0;    // of these, by the dynamic programme
  int optimal = 0;
  double largest_ratio = 1;  // of the times of steps
  double ratio_sum = 0;

  double mean_ratio() const { return ratio_sum / (solvable - missed); }
};

void compare(const Trace& trace, Comparison& comparison) {
  const Simulator simulator(trace);
  const std::int64_t largest = simulator.run(planner::retain_all(trace)).peak_bytes;
  std::vector<std::int64_t> budgets;
  for (int percent = 40; percent <= 100; percent += 5) {
    budgets.push_back(largest * percent / 100);
  }
  const std::vector<double> optimum =
      exhaustive_optimum(trace, budgets, {0, 1, 2, 3, Choice::kNever});
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    if (optimum[i] == kInfinite) {
      continue;
    }
    const double found = best_of_chains(trace, budgets[i]);
    ++comparison.solvable;
    if (found == kInfinite) {
      ++comparison.missed;
      continue;
    }
    EXPECT_GE(found, optimum[i]);
    const double ratio = (trace.seconds() + found) / (trace.seconds() + optimum[i]);
    comparison.optimal += found == optimum[i] ? 1 : 0;
    comparison.largest_ratio = std::max(comparison.largest_ratio, ratio);
    comparison.ratio_sum += ratio;
  }
}

TEST(ChainTest, ChainsOfOperatorsComeNearTheOptimum) {
  Comparison comparison;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    compare(random_chain(seed, 6), comparison);
  }
  EXPECT_GT(comparison.solvable, 250);
  EXPECT_LE(comparison.missed * 25, comparison.solvable);
  EXPECT_GE(comparison.optimal * 100, (comparison.solvable - comparison.missed) * 95);
  EXPECT_LE(comparison.mean_ratio(), 1.005);
  EXPECT_LE(comparison.largest_ratio, 1.2);
}

TEST(ChainTest, ChainsOfBlocksComeNearTheOptimum) {
  Comparison comparison;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    compare(random_blocks(seed, 3), comparison);
  }
  EXPECT_GT(comparison.solvable, 300);
  EXPECT_LE(comparison.missed * 20, comparison.solvable);
  EXPECT_GE(comparison.optimal * 100, (comparison.solvable - comparison.missed) * 85);
  EXPECT_LE(comparison.mean_ratio(), 1.01);
  EXPECT_LE(comparison.largest_ratio, 1.45);
}

TEST(ChainTest, PlansNeedLessMemoryThanAnyThatRecomputesOnce) {
  const Trace trace = unit_chain(14);
  std::vector<std::int64_t> budgets(14);
  std::iota(budgets.begin(), budgets.end(), 1);
  const std::vector<double> once = exhaustive_optimum(trace, budgets, {0, 1});
  const auto first = std::find_if(once.begin(), once.end(), [](double s) { return s < kInfinite; });
  ASSERT_NE(first, once.end());
  const std::int64_t smallest = budgets[first - once.begin()];
  EXPECT_EQ(smallest, 5);
  EXPECT_LT(best_of_chains(trace, smallest - 1), kInfinite);
  EXPECT_LT(best_of_chains(trace, smallest - 2), kInfinite);
}

TEST(ChainTest, LongChainsRunWithinAFewValues) {
  const Trace trace = unit_chain(64);
  EXPECT_LE(best_of_chains(trace, 9), 80);
  EXPECT_LE(best_of_chains(trace, 5), 160);
  EXPECT_LT(best_of_chains(trace, 3), kInfinite);
}

TEST(ChainTest, ConnectionsPastManyRegionsArePinned) {
  const Trace trace = u_shape(6);
  const RegionChain chain = cut_into_regions(trace, TraceFacts(trace),
                                             {.window = 0, .longest_span = 8, .most_regions = 128});
  EXPECT_GT(chain.regions.size(), 10U);
  EXPECT_TRUE(chain.is_pinned[1]);    // read by the last operators of the way up
  EXPECT_FALSE(chain.is_pinned[11]);  // by the first
  EXPECT_FALSE(chain.is_pinned[2]);   // on the way down alone
}

TEST(ChainTest, ConnectionsPastManyRegionsLeaveRoomForPlans) {
  const Trace trace = u_shape(6);
  const Simulation retained = Simulator(trace).run(planner::retain_all(trace));
  const double best = best_of_chains(trace, retained.peak_bytes * 6 / 10);
  EXPECT_LE(best, 0.5 * trace.seconds());
}

TEST(ChainTest, PlansOfNestedBlocksFitSmallBudgets) {
  const Trace trace = swiglu_stack();
  const Simulation retained = Simulator(trace).run(planner::retain_all(trace));
  EXPECT_LE(best_of_chains(trace, retained.peak_bytes * 3 / 10), 0.2 * trace.seconds());
  EXPECT_LE(best_of_chains(trace, retained.peak_bytes * 15 / 100), 0.35 * trace.seconds());
}

TEST(ChainTest, NoCutMeansNoPlans) {
  ChainBuilder single(1);
  single.add({single.input()}, {}, true, 4, 1);
  const Trace one = single.build(1);
  EXPECT_TRUE(ChainPlanner(Simulator(one), TraceFacts(one)).plans(100).empty());

  Trace in_place;
  const ValueId before = in_place.add_value({.bytes = 4, .released = 1});
  const ValueId after = in_place.add_value({.bytes = 4, .released = 1, .overwrites = before});
  in_place.operators = {{.name = "make", .seconds = 1, .results = {before}},
                        {.name = "write", .seconds = 1, .reads = {before}, .results = {after}},
                        {.name = "backward", .seconds = 1, .reads = {after}}};
  in_place.backward_begin = 2;
  EXPECT_TRUE(ChainPlanner(Simulator(in_place), TraceFacts(in_place)).plans(100).empty());
}

TEST(ChainTest, NoRoomMeansNoPlans) {
  const Trace trace = unit_chain(10);
  EXPECT_TRUE(ChainPlanner(Simulator(trace), TraceFacts(trace)).plans(0).empty());
}

TEST(ChainTest, PlansOfAnyTraceAreValid) {
  int plans = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 40, .not_recomputable = 0.1});
    const Simulator simulator(trace);
    const std::int64_t peak = simulator.run(planner::retain_all(trace)).peak_bytes;
    const TraceFacts facts(trace);
    ChainPlanner planner(simulator, facts);
    for (const int percent : {50, 70, 90}) {
      for (const Plan& plan : planner.plans(peak * percent / 100)) {
        EXPECT_TRUE(simulator.run(plan).is_valid) << "seed " << seed << ", " << percent << " %";
        ++plans;
      }
    }
  }
  EXPECT_GT(plans, 1000);
}

TEST(ChainTest, EarlierBudgetsDoNotChangeLaterPlans) {
  const Trace trace = random_blocks(7, 12);
  const Simulator simulator(trace);
  const TraceFacts facts(trace);
  const std::int64_t peak = simulator.run(planner::retain_all(trace)).peak_bytes;
  ChainPlanner planner(simulator, facts);
  for (const int percent : {90, 60, 85, 40, 60}) {
    const std::vector<Plan> plans = planner.plans(peak * percent / 100);
    EXPECT_FALSE(plans.empty());
    EXPECT_EQ(plans, ChainPlanner(simulator, facts).plans(peak * percent / 100));
  }
}

TEST(ChainTest, LongChainsHaveAtMostSoManyRegions) {
  const Trace trace = unit_chain(1000);
  const RegionChain chain = cut_into_regions(
      trace, TraceFacts(trace), {.window = 1, .longest_span = 100, .most_regions = 128});
  ASSERT_EQ(chain.regions.size(), 128U);
  for (std::size_t i = 0; i < chain.regions.size(); ++i) {
    const OperatorId size = chain.regions[i].end - chain.regions[i].begin;
    EXPECT_LE(size, 16) << "region " << i;
    EXPECT_EQ(chain.regions[i].inputs.size(), i == 0 ? 0U : 1U);
  }
}

}  // namespace
}  // namespace reprise::testing::chain_test
