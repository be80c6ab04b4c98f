// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/lower_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::lower_bound_test {

using planner::Choice;
using planner::kNone;
using planner::Operator;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::StoreOption;
using planner::Trace;
using planner::ValueId;
using planner_internal::TraceFacts;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double bound(const Trace& trace, std::int64_t peak_bytes,
             const std::vector<StoreOption>& stores = {}) {
  return planner_internal::lower_bound(trace, TraceFacts(trace), stores, peak_bytes);
}

struct Outcome {
  std::int64_t peak_bytes = 0;
  double extra_seconds = 0;
};

// The values of forward that backward may need.
std::vector<ValueId> values_to_choose(const Trace& trace) {
  std::vector<ValueId> values;
  for (std::size_t op = 0; op < static_cast<std::size_t>(trace.backward_begin); ++op) {
    for (const ValueId value : trace.operators[op].results) {
      if (trace.values[value].released != kNone) {
        values.push_back(value);
      }
    }
  }
  return values;
}

// Simulates all plans that are made of `menu`.
std::vector<Outcome> all_outcomes(const Simulator& simulator, const std::vector<Choice>& menu) {
  const std::vector<ValueId> values = values_to_choose(simulator.trace());
  Plan plan(simulator.trace());
  std::vector<std::size_t> digits(values.size());
  std::vector<Outcome> outcomes;
  for (bool is_more = true; is_more;) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      plan.choices[values[i]] = menu[digits[i]];
    }
    const Simulation result = simulator.run(plan);
    if (result.is_valid) {
      outcomes.push_back({result.peak_bytes, result.recompute_seconds + result.store_seconds});
    }
    is_more = false;
    for (std::size_t i = 0; i < digits.size() && !is_more; ++i) {
      digits[i] = (digits[i] + 1) % menu.size();
      is_more = digits[i] != 0;
    }
  }
  return outcomes;
}

double best_extra_seconds(const std::vector<Outcome>& outcomes, std::int64_t peak_bytes) {
  double best = kInfinity;
  for (const Outcome& outcome : outcomes) {
    if (outcome.peak_bytes <= peak_bytes) {
      best = std::min(best, outcome.extra_seconds);
    }
  }
  return best;
}

struct Tally {
  int positive_bounds = 0;  // finite
  int infinite_bounds = 0;
  double bounds = 0;  // sums, where both are finite
  double optima = 0;
};

// Compares the bound with the best of all plans, for budgets from below the smallest peak up.
void compare(const Trace& trace, const std::vector<StoreOption>& stores,
             const std::vector<Choice>& menu, Tally& tally) {
  const Simulator simulator(trace, stores);
  const std::vector<Outcome> outcomes = all_outcomes(simulator, menu);
  ASSERT_FALSE(outcomes.empty());
  const auto [least, most] = std::minmax_element(
      outcomes.begin(), outcomes.end(),
      [](const Outcome& a, const Outcome& b) { return a.peak_bytes < b.peak_bytes; });
  const std::int64_t range = most->peak_bytes - least->peak_bytes;
  for (int eighth = -2; eighth <= 8; ++eighth) {
    const std::int64_t peak_bytes = least->peak_bytes + range * eighth / 8;
    const double below = bound(trace, peak_bytes, stores);
    const double best = best_extra_seconds(outcomes, peak_bytes);
    ASSERT_LE(below, best) << "within " << peak_bytes << " bytes";
    ASSERT_GE(below, 0);
    tally.positive_bounds += below > 0 && below < kInfinity ? 1 : 0;
    tally.infinite_bounds += below == kInfinity ? 1 : 0;
    if (best < kInfinity) {
      tally.bounds += below;
      tally.optima += best;
    }
  }
}

// Compares for random traces with at most `max_values` values to choose for.
Tally compare_random(int forward_operators, std::size_t max_values, std::uint64_t seeds,
                     const std::vector<StoreOption>& stores, const std::vector<Choice>& menu) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < seeds && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const Trace trace = random_trace(
        seed, {.forward_operators = 3 + static_cast<int>(seed % (forward_operators - 2)),
               .in_place = 0.15,
               .held = 0.1});
    if (values_to_choose(trace).size() <= max_values) {
      compare(trace, stores, menu, tally);
    }
  }
  return tally;
}

TEST(LowerBoundTest, IsNeverAboveTheOptimum) {
  const Tally tally = compare_random(11, 11, 600, {}, {Choice::retain(), Choice::recompute()});
  RecordProperty("share_of_optimum", std::to_string(tally.bounds / tally.optima));
  EXPECT_GT(tally.positive_bounds, 500);
  EXPECT_GT(tally.infinite_bounds, 100);
  EXPECT_GT(tally.bounds, 0.4 * tally.optima);
}

TEST(LowerBoundTest, HoldsForPlansThatRecomputeMoreThanOnce) {
  const Tally tally = compare_random(
      6, 5, 400, {},
      {Choice::retain(), Choice::recompute(), {.retained_from = 2}, {.retained_from = 255}});
  EXPECT_GT(tally.positive_bounds, 100);
}

StoreOption synchronous_store() {
  return {.name = "disk",
          .retained_fraction = 0.125,
          .put_seconds_per_byte = 0x1p-15,
          .get_seconds_per_byte = 0x1p-14,
          .latency_seconds = 0x1p-10,
          .smallest_bytes = 200};
}

StoreOption overlapped_store() {
  return {.name = "host",
          .retained_fraction = 0,
          .put_seconds_per_byte = 0x1p-14,
          .get_seconds_per_byte = 0x1p-14,
          .latency_seconds = 0x1p-10,
          .is_overlapped = true,
          .smallest_bytes = 500,
          .capacity_bytes = 700};
}

TEST(LowerBoundTest, HoldsWithASynchronousStore) {
  const Tally tally = compare_random(7, 7, 400, {synchronous_store()},
                                     {Choice::retain(), Choice::recompute(), Choice::put(0)});
  EXPECT_GT(tally.positive_bounds, 200);
  EXPECT_GT(tally.bounds, 0.2 * tally.optima);
}

TEST(LowerBoundTest, HoldsWithAStoreBesideTheComputation) {
  const Tally tally =
      compare_random(6, 6, 400, {synchronous_store(), overlapped_store()},
                     {Choice::retain(), Choice::recompute(), Choice::put(0), Choice::put(1)});
  EXPECT_GT(tally.positive_bounds, 100);
}

// x -> a (1 s) -> b (2 s) -> c (4 s) -> loss, each of 128 bytes but for x and the loss, which have
// none; backward reads c, b and a, in this order, and makes nothing.
Trace chain_trace() {
  Trace trace;
  const ValueId x = trace.add_value({.bytes = 0});
  const ValueId a = trace.add_value({.bytes = 128, .released = 1});
  const ValueId b = trace.add_value({.bytes = 128, .released = 2});
  const ValueId c = trace.add_value({.bytes = 128, .released = 3});
  const ValueId loss = trace.add_value({.bytes = 0});
  trace.operators = {{.name = "a", .seconds = 1, .reads = {x}, .results = {a}},
                     {.name = "b", .seconds = 2, .reads = {a}, .results = {b}},
                     {.name = "c", .seconds = 4, .reads = {b}, .results = {c}},
                     {.name = "loss", .seconds = 1, .reads = {c}, .results = {loss}},
                     {.name = "c_backward", .seconds = 1, .reads = {c}, .results = {}},
                     {.name = "b_backward", .seconds = 1, .reads = {b}, .results = {}},
                     {.name = "a_backward", .seconds = 1, .reads = {a}, .results = {}}};
  trace.backward_begin = 4;
  return trace;
}

TEST(LowerBoundTest, IsExactForAChain) {
  const Trace trace = chain_trace();
  const Simulator simulator(trace);
  const std::vector<Outcome> outcomes =
      all_outcomes(simulator, {Choice::retain(), Choice::recompute()});
  EXPECT_EQ(bound(trace, 384), 0);
  EXPECT_EQ(best_extra_seconds(outcomes, 256), 1);
  EXPECT_NEAR(bound(trace, 256), 1, 1e-6);
  EXPECT_NEAR(bound(trace, 320), 0.5, 1e-6);  // as if half of `a` could be recomputed
  EXPECT_EQ(bound(trace, 255), kInfinity);    // `b` is made from `a`
}

TEST(LowerBoundTest, StoresCostWhatTheyTake) {
  const Trace trace = chain_trace();
  StoreOption store{.put_seconds_per_byte = 0x1p-9,
                    .get_seconds_per_byte = 0x1p-9,
                    .latency_seconds = 0.125,
                    .smallest_bytes = 128};
  Plan plan = retain_all(trace);
  plan.choices[1] = Choice::put(0);
  const Simulation simulation = Simulator(trace, {store}).run(plan);
  ASSERT_EQ(simulation.peak_bytes, 256);
  ASSERT_EQ(simulation.store_seconds, 0.75);
  EXPECT_NEAR(bound(trace, 256, {store}), 0.75, 1e-6);
  store.is_overlapped = true;
  EXPECT_EQ(bound(trace, 256, {store}), 0);
  store.smallest_bytes = 129;
  EXPECT_NEAR(bound(trace, 256, {store}), 1, 1e-6);
}

TEST(LowerBoundTest, CountsResultsAndWorkspaceOfBackward) {
  Trace trace = chain_trace();
  trace.operators[4].workspace_bytes = 64;
  EXPECT_NEAR(bound(trace, 384), 0.5, 1e-6);
  trace.add_value({.bytes = 64, .released = 4, .kind = planner::ValueKind::kGradient});
  trace.operators[4].results = {5};
  EXPECT_NEAR(bound(trace, 384), 1, 1e-6);
}

TEST(LowerBoundTest, CountsWhatTheProgramHolds) {
  Trace trace = chain_trace();
  trace.values[2].released = kNone;  // `b`: free, and `c` is made of it
  EXPECT_NEAR(bound(trace, 256), 1, 1e-6);
  trace.add_value({.bytes = 64});  // a parameter
  EXPECT_NEAR(bound(trace, 384), 0.5, 1e-6);
}

TEST(LowerBoundTest, WhatTheFirstOperatorWasRecomputedFromMayBeGone) {
  // `big` is needed for `small` alone, which the first operator of backward reads.
  Trace trace;
  trace.add_value({.bytes = 100, .released = 1, .name = "big"});
  trace.add_value({.bytes = 1, .released = 2, .name = "small"});
  trace.add_value({.bytes = 0, .name = "loss"});
  trace.add_value({.bytes = 100, .released = 3, .name = "gradient"});
  trace.operators = {
      {.name = "big", .seconds = 8, .can_recompute = false, .reads = {}, .results = {0}},
      {.name = "small", .seconds = 1, .reads = {0}, .results = {1}},
      {.name = "loss", .seconds = 1, .reads = {1}, .results = {2}},
      {.name = "backward", .seconds = 1, .reads = {1}, .results = {3}}};
  trace.backward_begin = 3;
  Plan plan(trace);
  plan.choices[0] = Choice::retain();
  const Simulation simulation = Simulator(trace).run(plan);
  ASSERT_EQ(simulation.peak_bytes, 101);
  ASSERT_EQ(simulation.recompute_seconds, 1);
  EXPECT_EQ(bound(trace, 101), 0);
}

TEST(LowerBoundTest, CountsMemoryThatIsTakenOverOnce) {
  Trace trace = chain_trace();
  trace.values[2].overwrites = 1;  // `b` takes over the memory of `a`
  trace.values[2].released = kNone;
  trace.operators[6].reads = {};
  Simulation simulation = Simulator(trace).run(retain_all(trace));
  ASSERT_EQ(simulation.peak_bytes, 256);
  EXPECT_EQ(bound(trace, 256), 0);
  EXPECT_EQ(bound(trace, 255), kInfinity);
}

TEST(LowerBoundTest, LaterOperatorsOfBackwardCountToo) {
  Trace trace = chain_trace();
  trace.operators[5].workspace_bytes = 384;  // `b` and this leave no room for `a`
  const std::vector<Outcome> outcomes =
      all_outcomes(Simulator(trace), {Choice::retain(), Choice::recompute()});
  ASSERT_EQ(best_extra_seconds(outcomes, 512), 1);
  EXPECT_NEAR(bound(trace, 512), 1, 1e-6);
  EXPECT_EQ(bound(trace, 511), kInfinity);
}

TEST(LowerBoundTest, IsInfiniteIfWhatMustBeRetainedDoesNotFit) {
  Trace trace = chain_trace();
  trace.operators[0].can_recompute = false;
  EXPECT_NEAR(bound(trace, 256), 2, 1e-6);  // `b` is recomputed, from `a`
  trace.operators[1].can_recompute = false;
  // The first operator of backward reads `c`, beside which `a` and `b` are needed.
  EXPECT_EQ(bound(trace, 383), kInfinity);
  EXPECT_EQ(bound(trace, 384), 0);
}

TEST(LowerBoundTest, NeedsNoBackward) {
  Trace trace = chain_trace();
  trace.operators.resize(4);
  EXPECT_EQ(bound(trace, 256), 0);
  EXPECT_EQ(bound(trace, 255), kInfinity);
}

}  // namespace reprise::testing::lower_bound_test
