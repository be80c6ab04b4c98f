// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/model_traces.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::planner_test {
namespace {

using planner::Choice;
using planner::kNone;
using planner::OperatorId;
using planner::Plan;
using planner::Planner;
using planner::Simulation;
using planner::Simulator;
using planner::Solution;
using planner::StoreOption;
using planner::Trace;
using planner::ValueId;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

std::vector<bool> overwritten_values(const Trace& trace) {
  std::vector<bool> is_overwritten(trace.values.size());
  for (const planner::Value& value : trace.values) {
    if (value.overwrites != kNone) {
      is_overwritten[value.overwrites] = true;
    }
  }
  return is_overwritten;
}

// The bytes that are there before the step and to its end.
std::int64_t fixed_bytes(const Trace& trace) {
  const std::vector<OperatorId> producers = trace.producers();
  std::int64_t bytes = 0;
  for (std::size_t value = 0; value < trace.values.size(); ++value) {
    if (producers[value] == kNone && trace.values[value].released == kNone) {
      bytes += trace.values[value].bytes;
    }
  }
  return bytes;
}

// A budget that leaves `part` of the memory that activations take without recomputation.
std::int64_t budget_for(const Trace& trace, double part) {
  const std::int64_t fixed = fixed_bytes(trace);
  const std::int64_t peak = Simulator(trace).run(planner::retain_all(trace)).peak_bytes;
  return fixed + static_cast<std::int64_t>(part * static_cast<double>(peak - fixed));
}

void expect_is_true(const Solution& solution, const Planner& planner, std::int64_t budget) {
  const Simulation simulation = planner.simulator().run(solution.plan);
  EXPECT_TRUE(simulation.is_valid);
  EXPECT_EQ(simulation.peak_bytes, solution.simulation.peak_bytes);
  EXPECT_EQ(simulation.seconds, solution.simulation.seconds);
  EXPECT_LE(simulation.peak_bytes, budget);
  EXPECT_LE(solution.bound_seconds, simulation.seconds);
  EXPECT_GE(solution.bound_seconds, planner.simulator().trace().seconds() * (1 - 1e-12));
  const std::vector<bool> is_overwritten = overwritten_values(planner.simulator().trace());
  for (std::size_t value = 0; value < is_overwritten.size(); ++value) {
    EXPECT_FALSE(is_overwritten[value] && solution.plan.choices[value].is_retained());
  }
}

// Values are retained or recomputed once: the fastest plan for each peak that such plans have.
class Exhaustive {
 public:
  explicit Exhaustive(const Trace& trace) : simulator_(trace) {
    const std::vector<bool> is_overwritten = overwritten_values(trace);
    for (OperatorId op = 0; op < trace.backward_begin; ++op) {
      for (const ValueId value : trace.operators[op].results) {
        if (!is_overwritten[value]) {
          values_.push_back(value);
        }
      }
    }
    for (std::uint32_t chosen = 0; chosen < 1U << values_.size(); ++chosen) {
      add(chosen, trace);
    }
  }

  std::size_t values() const { return values_.size(); }
  std::int64_t smallest_peak() const { return fastest_.begin()->first; }
  std::int64_t largest_peak() const { return fastest_.rbegin()->first; }
  double fastest_within(std::int64_t budget) const {
    double best = std::numeric_limits<double>::infinity();
    for (const auto& [peak, seconds] : fastest_) {
      best = peak <= budget ? std::min(best, seconds) : best;
    }
    return best;
  }

 private:
  void add(std::uint32_t chosen, const Trace& trace) {
    Plan plan(trace);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      plan.choices[values_[i]] = (chosen >> i & 1U) != 0 ? Choice::retain() : Choice::recompute();
    }
    const Simulation simulation = simulator_.run(plan);
    if (simulation.is_valid) {
      const auto [entry, is_new] = fastest_.emplace(simulation.peak_bytes, simulation.seconds);
      entry->second = std::min(entry->second, simulation.seconds);
    }
  }

  Simulator simulator_;
  std::vector<ValueId> values_;
  std::map<std::int64_t, double> fastest_;  // by peak
};

// Operators that make 1 value of 100 bytes each, of which backward reads all; each takes a second,
// but the odd ones two.
Trace chain(int operators) {
  Trace trace;
  ValueId last = trace.add_value({.bytes = 100, .kind = planner::ValueKind::kInput});
  std::vector<ValueId> made;
  for (OperatorId op = 0; op < operators; ++op) {
    const ValueId next = trace.add_value({.bytes = 100, .released = op + 1});
    trace.operators.push_back(
        {.name = "f", .seconds = op % 2 == 0 ? 1.0 : 2.0, .reads = {last}, .results = {next}});
    made.push_back(last = next);
  }
  trace.backward_begin = operators;
  trace.values[last].released = operators - 1;
  for (auto value = made.rbegin(); value != made.rend(); ++value) {
    trace.operators.push_back({.name = "b", .seconds = 2.0, .reads = {*value}});
  }
  return trace;
}

TEST(PlannerTest, WithoutNeedRecomputesNothing) {
  const Trace trace = chain(8);
  Planner planner(trace);
  const std::int64_t all = planner.simulator().run(planner::retain_all(trace)).peak_bytes;
  const std::optional<Solution> found = planner.plan(all);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->simulation.seconds, trace.seconds());
  EXPECT_EQ(found->bound_seconds, trace.seconds());
  EXPECT_EQ(found->gap_seconds(), 0);
}

TEST(PlannerTest, OneValueLessCostsItsOperator) {
  const Trace trace = chain(8);
  Planner planner(trace);
  const std::int64_t all = planner.simulator().run(planner::retain_all(trace)).peak_bytes;
  const std::optional<Solution> found = planner.plan(all - 100);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->simulation.recompute_seconds, 1.0);
  EXPECT_EQ(found->simulation.peak_bytes, all - 100);
}

TEST(PlannerTest, NeverExceedsABudgetOfRandomGraphs) {
  int found_plans = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 5 + static_cast<int>(seed % 10)});
    Planner planner(trace, {.max_simulations = 8});
    for (const double part : {seed % 2 == 0 ? 0.9 : 0.75}) {
      const std::int64_t budget = budget_for(trace, part);
      if (const std::optional<Solution> found = planner.plan(budget); found.has_value()) {
        ++found_plans;
        expect_is_true(*found, planner, budget);
      }
    }
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(found_plans, 400);
}

TEST(PlannerTest, IsOptimalForNearlyAllSmallGraphs) {
  int feasible = 0;
  int optimal = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 5 + static_cast<int>(seed % 5)});
    const Exhaustive exhaustive(trace);
    Planner planner(trace, {.max_simulations = 500});
    for (int i = 0; i < 5; ++i) {
      const std::int64_t budget = exhaustive.smallest_peak() +
                                  (exhaustive.largest_peak() - exhaustive.smallest_peak()) * i / 5;
      const double optimum = exhaustive.fastest_within(budget);
      const std::optional<Solution> found = planner.plan(budget);
      ++feasible;
      if (found.has_value()) {
        optimal += found->simulation.seconds <= optimum * (1 + 1e-9) ? 1 : 0;
        EXPECT_LE(found->bound_seconds, optimum * (1 + 1e-9)) << "seed " << seed;
      }
    }
  }
  EXPECT_EQ(feasible, 200);
  EXPECT_GE(optimal, feasible * 98 / 100);
}

TEST(PlannerTest, SmallestPeakIsThatOfAllPlansForNearlyAllSmallGraphs) {
  int optimal = 0;
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 8});
    const Exhaustive exhaustive(trace);
    Planner planner(trace);
    const Solution smallest = planner.smallest_peak();
    expect_is_true(smallest, planner, smallest.simulation.peak_bytes);
    optimal += smallest.simulation.peak_bytes <= exhaustive.smallest_peak() ? 1 : 0;
  }
  EXPECT_GE(optimal, 29);
}

TEST(PlannerTest, MoreMemoryIsNeverSlowerInAnyOrder) {
  for (const std::uint64_t seed : {1, 2}) {
    const Trace trace = random_trace(seed, {.forward_operators = 40});
    Planner planner(trace, {.max_simulations = 150});
    std::vector<std::int64_t> budgets;
    for (int i = 1; i <= 20; ++i) {
      budgets.push_back(budget_for(trace, 0.05 * i));
    }
    std::vector<std::int64_t> order = budgets;
    std::mt19937_64 random(seed);
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random() % (i + 1)]);
    }
    std::map<std::int64_t, double> seconds;  // by budget, of those asked for so far
    for (const std::int64_t budget : order) {
      const std::optional<Solution> found = planner.plan(budget);
      for (const auto& [smaller, known] : seconds) {
        if (smaller <= budget) {
          ASSERT_TRUE(found.has_value());
          EXPECT_LE(found->simulation.seconds, known);
        }
      }
      if (found.has_value()) {
        seconds[budget] = found->simulation.seconds;
      }
    }
    double slowest = std::numeric_limits<double>::infinity();
    for (const std::int64_t budget : budgets) {
      if (const std::optional<Solution> found = planner.plan(budget); found.has_value()) {
        EXPECT_LE(found->simulation.seconds, slowest);
        slowest = found->simulation.seconds;
      }
    }
    EXPECT_LT(slowest, std::numeric_limits<double>::infinity());
  }
}

TEST(PlannerTest, EqualCallsGiveEqualPlans) {
  const Trace trace = random_trace(7, {.forward_operators = 40});
  Planner first(trace, {.max_simulations = 300});
  Planner second(trace, {.max_simulations = 300});
  for (const double part : {0.8, 0.5, 0.65}) {
    const std::optional<Solution> a = first.plan(budget_for(trace, part));
    const std::optional<Solution> b = second.plan(budget_for(trace, part));
    ASSERT_EQ(a.has_value(), b.has_value());
    if (a.has_value()) {
      EXPECT_EQ(a->plan, b->plan);
      EXPECT_EQ(a->method, b->method);
    }
  }
  EXPECT_EQ(first.smallest_peak().plan, second.smallest_peak().plan);
}

TEST(PlannerTest, BelowTheSmallestPeakOnlySmallerPlansAreFound) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 25});
    Planner planner(trace, {.max_simulations = 200});
    const std::int64_t smallest = planner.smallest_peak().simulation.peak_bytes;
    const std::optional<Solution> at = planner.plan(smallest);
    ASSERT_TRUE(at.has_value());
    expect_is_true(*at, planner, smallest);
    if (const std::optional<Solution> below = planner.plan(smallest - 1); below.has_value()) {
      expect_is_true(*below, planner, smallest - 1);
    }
  }
}

TEST(PlannerTest, NothingFitsIntoNothing) {
  const Trace trace = chain(4);
  EXPECT_FALSE(Planner(trace).plan(0).has_value());
  EXPECT_FALSE(Planner(trace).plan(-1).has_value());
}

TEST(PlannerTest, AStepWithoutOperatorsHasAPlan) {
  Trace trace;
  trace.add_value({.bytes = 8});
  Planner planner(trace);
  EXPECT_EQ(planner.smallest_peak().simulation.peak_bytes, 0);
  EXPECT_TRUE(planner.plan(0).has_value());
  EXPECT_EQ(planner.frontier(3).size(), 1);
}

TEST(PlannerTest, GapsOfModelsAreSmall) {
  std::vector<Trace> traces;
  traces.push_back(transformer(4, 1024, 1024, 4, false));
  traces.push_back(swiglu_stack(6));
  traces.push_back(resnet(8));
  traces.push_back(densenet(10));
  for (const Trace& trace : traces) {
    Planner planner(trace, {.max_simulations = 250});
    for (const auto& [part, most] : {std::pair(0.8, 0.01), {0.5, 0.02}, {0.35, 0.03}}) {
      const std::optional<Solution> found = planner.plan(budget_for(trace, part));
      ASSERT_TRUE(found.has_value()) << part;
      EXPECT_LE(found->gap_seconds(), most * trace.seconds()) << part;
    }
  }
}

TEST(PlannerTest, StoresThatCostLittleTakeLessTimeThanRecomputation) {
  const Trace trace = chain(10);
  const std::int64_t budget = Simulator(trace).run(planner::retain_all(trace)).peak_bytes - 400;
  const Solution without = Planner(trace).plan(budget).value();
  Planner planner(
      trace,
      {.stores = {{.name = "host", .put_seconds_per_byte = 1e-4, .get_seconds_per_byte = 1e-4}}});
  const Solution with = planner.plan(budget).value();
  expect_is_true(with, planner, budget);
  EXPECT_EQ(without.simulation.recompute_seconds, 4.0);
  EXPECT_EQ(with.simulation.recompute_seconds, 0.0);
  EXPECT_NEAR(with.simulation.store_seconds, 0.08, 1e-9);
}

TEST(PlannerTest, StoresNeverHoldMoreThanTheirCapacity) {
  const Trace trace = chain(10);
  Planner planner(trace, {.stores = {{.name = "host", .capacity_bytes = 250}}});
  const std::int64_t budget = planner.simulator().run(planner::retain_all(trace)).peak_bytes - 400;
  const Solution found = planner.plan(budget).value();
  EXPECT_LE(found.simulation.stored_bytes.at(0), 250);
  EXPECT_EQ(found.simulation.stored_bytes.at(0), 200);
  EXPECT_EQ(found.simulation.recompute_seconds, 2.0);
}

TEST(PlannerTest, StoresBesideTheComputationLowerTheSmallestPeak) {
  const Trace trace = transformer(2, 256, 256, 2, false);
  const std::int64_t without = Planner(trace).smallest_peak().simulation.peak_bytes;
  Planner planner(trace, {.stores = {{.name = "host",
                                      .put_seconds_per_byte = 1e-12,
                                      .get_seconds_per_byte = 1e-12,
                                      .is_overlapped = true}}});
  EXPECT_LE(planner.smallest_peak().simulation.peak_bytes, without);
  const std::int64_t budget = budget_for(trace, 0.7);
  EXPECT_LT(planner.plan(budget).value().simulation.seconds,
            Planner(trace).plan(budget).value().simulation.seconds);
}

TEST(PlannerTest, OverheadIsAtMostWhatIsAskedFor) {
  const Trace trace = random_trace(11, {.forward_operators = 30});
  Planner planner(trace, {.max_simulations = 200});
  std::int64_t last = kNoLimit;
  for (const double overhead : {0.0, 0.03, 0.1, 0.5}) {
    const Solution found = planner.plan_within_overhead(overhead);
    EXPECT_LE(found.simulation.seconds, trace.seconds() * (1 + overhead) * (1 + 1e-9));
    EXPECT_LE(found.simulation.peak_bytes, last);
    last = found.simulation.peak_bytes;
  }
  EXPECT_LT(last, budget_for(trace, 1.0));
}

TEST(PlannerTest, FrontierRisesInMemoryAndFallsInTime) {
  const Trace trace = random_trace(12, {.forward_operators = 30});
  Planner planner(trace, {.max_simulations = 200});
  const std::vector<Solution> frontier = planner.frontier(10);
  ASSERT_GE(frontier.size(), 5U);
  EXPECT_EQ(frontier.front().simulation.peak_bytes, planner.smallest_peak().simulation.peak_bytes);
  EXPECT_EQ(frontier.back().simulation.recompute_seconds, 0);
  for (std::size_t i = 1; i < frontier.size(); ++i) {
    EXPECT_GT(frontier[i].simulation.peak_bytes, frontier[i - 1].simulation.peak_bytes);
    EXPECT_LT(frontier[i].simulation.seconds, frontier[i - 1].simulation.seconds);
  }
  const Solution knee = planner.knee(10);
  EXPECT_TRUE(std::any_of(frontier.begin(), frontier.end(),
                          [&](const Solution& each) { return each.plan == knee.plan; }));
  EXPECT_NE(knee.plan, frontier.front().plan);
  EXPECT_NE(knee.plan, frontier.back().plan);
}

TEST(PlannerTest, RejectsWhatMakesNoSense) {
  const Trace trace = chain(3);
  Planner planner(trace);
  EXPECT_THROW(planner.frontier(1), std::invalid_argument);
  EXPECT_THROW(planner.plan_within_overhead(-0.1), std::invalid_argument);
  Trace invalid = trace;
  invalid.operators[0].seconds = -1;
  EXPECT_THROW(Planner{invalid}, std::invalid_argument);
}

}  // namespace
}  // namespace reprise::testing::planner_test
