// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The parts that a planner consists of.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string_view>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/search/archive.h"
#include "reprise/planner/search/eviction.h"
#include "reprise/planner/search/local_search.h"
#include "reprise/planner/search/price_search.h"
#include "reprise/planner/search/problem.h"
#include "reprise/planner/search/reruns.h"
#include "reprise/planner/search/retain_menu.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::search_test {
namespace {

using planner::Choice;
using planner::kNone;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::StoreOption;
using planner::Trace;
using planner::ValueId;
using planner_internal::Archive;
using planner_internal::Cut;
using planner_internal::Eviction;
using planner_internal::LocalSearch;
using planner_internal::PricedWay;
using planner_internal::PriceSearch;
using planner_internal::Problem;
using planner_internal::Relief;
using planner_internal::Reruns;
using planner_internal::RetainMenu;
using planner_internal::Trials;

// Retains each candidate or recomputes it once, by chance.
Plan keep_set(const Problem& problem, std::mt19937_64& random) {
  Plan plan = problem.smallest_plan();
  for (const ValueId value : problem.candidates) {
    plan.choices[value] = random() % 2 == 0 ? Choice::retain() : Choice::recompute();
  }
  return plan;
}

// input -> a (1 s) -> b (2 s) -> c (4 s); backward reads c, b and a; 100, 200 and 300 bytes.
struct ThreeSteps {
  ThreeSteps() {
    const ValueId input = trace.add_value({.bytes = 50});
    a = trace.add_value({.bytes = 100, .released = 1});
    b = trace.add_value({.bytes = 200, .released = 2});
    c = trace.add_value({.bytes = 300, .released = 2});
    trace.operators = {{.name = "a", .seconds = 1, .reads = {input}, .results = {a}},
                       {.name = "b", .seconds = 2, .reads = {a}, .results = {b}},
                       {.name = "c", .seconds = 4, .reads = {b}, .results = {c}},
                       {.name = "c backward", .seconds = 1, .reads = {c}},
                       {.name = "b backward", .seconds = 1, .reads = {b}},
                       {.name = "a backward", .seconds = 1, .reads = {a}}};
    trace.backward_begin = 3;
  }
  Trace trace;
  ValueId a, b, c;
};

// What the methods of a search work with.
struct Methods {
  explicit Methods(const Trace& trace)
      : simulator(trace), problem(simulator), menu(problem), trials(simulator, archive) {}

  const Simulator simulator;
  const Problem problem;
  const RetainMenu menu;
  Archive archive;
  Trials trials;
};

TEST(ProblemTest, FindsUsesAndNeeds) {
  ThreeSteps steps;
  steps.trace.operators[4].reads.clear();  // only c reads b
  const Simulator simulator(steps.trace);
  const Problem problem(simulator);
  EXPECT_EQ(problem.first_use[steps.c], 3);
  EXPECT_EQ(problem.first_use[steps.b], kNone);
  EXPECT_EQ(problem.first_need[steps.b], 3);
  EXPECT_EQ(problem.last_use[steps.a], 5);
  EXPECT_EQ(problem.candidates, (std::vector<ValueId>{steps.a, steps.b, steps.c}));
  EXPECT_EQ(problem.fixed_bytes, 50);
  EXPECT_FALSE(problem.largest_plan().choices[steps.b].is_retained());
  EXPECT_TRUE(problem.largest_plan().choices[steps.c].is_retained());
}

TEST(ProblemTest, ResultsOfOperatorsThatCannotRunAgainAreRetained) {
  ThreeSteps steps;
  steps.trace.operators[1].can_recompute = false;
  const Simulator simulator(steps.trace);
  const Problem problem(simulator);
  EXPECT_EQ(problem.candidates, (std::vector<ValueId>{steps.a, steps.c}));
  EXPECT_TRUE(problem.smallest_plan().choices[steps.b].is_retained());
  EXPECT_TRUE(simulator.run(problem.smallest_plan()).is_valid);
}

TEST(RerunsTest, TimesAreThoseOfTheSimulator) {
  std::mt19937_64 random(1);
  int valid = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Trace trace = random_trace(seed, {.held = 0});
    const Simulator simulator(trace);
    const Problem problem(simulator);
    for (int i = 0; i < 5; ++i) {
      const Plan plan = keep_set(problem, random);
      const Simulation simulation = simulator.run(plan);
      const Reruns reruns(problem, plan);
      ASSERT_EQ(std::isfinite(reruns.seconds()), simulation.is_valid) << seed;
      if (simulation.is_valid) {
        ++valid;
        ASSERT_EQ(reruns.seconds(), simulation.recompute_seconds) << seed;
      }
    }
  }
  EXPECT_GT(valid, 500);
}

TEST(RerunsTest, ChangesAreThoseOfNewPlans) {
  std::mt19937_64 random(2);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Trace trace = random_trace(seed, {.not_recomputable = 0});
    const Simulator simulator(trace);
    const Problem problem(simulator);
    Plan plan = keep_set(problem, random);
    Reruns reruns(problem, plan);
    for (const ValueId value : problem.candidates) {
      const double change = reruns.change_if_toggled(value);
      const double before = reruns.seconds();
      const bool is_retained = plan.choices[value].is_retained();
      plan.choices[value] = is_retained ? Choice::recompute() : Choice::retain();
      reruns.set_retained(value, !is_retained);
      const Reruns fresh(problem, plan);
      if (std::isfinite(before) && std::isfinite(fresh.seconds())) {
        ASSERT_EQ(change, fresh.seconds() - before);
      }
      ASSERT_EQ(reruns.seconds(), fresh.seconds());
      ASSERT_EQ(reruns.is_needed(value), fresh.is_needed(value));
    }
  }
}

TEST(RerunsTest, TimeToMakeEndsAtWhatIsRetained) {
  const ThreeSteps steps;
  const Simulator simulator(steps.trace);
  const Problem problem(simulator);
  Reruns reruns(problem, problem.smallest_plan());
  EXPECT_EQ(reruns.seconds_to_make(steps.c), 7);
  reruns.set_retained(steps.a, true);
  EXPECT_EQ(reruns.seconds_to_make(steps.c), 6);
  EXPECT_EQ(reruns.seconds(), 6);
}

Simulation simulation_of(std::int64_t peak, double seconds) {
  Simulation simulation;
  simulation.peak_bytes = peak;
  simulation.seconds = seconds;
  return simulation;
}

TEST(ArchiveTest, KeepsWhatIsNotWorse) {
  Archive archive;
  EXPECT_EQ(archive.smallest(), nullptr);
  archive.add(Plan(), simulation_of(100, 5), "a");
  archive.add(Plan(), simulation_of(100, 6), "slower");
  archive.add(Plan(), simulation_of(200, 5), "larger");
  archive.add(Plan(), simulation_of(300, 3), "b");
  archive.add(Plan(), simulation_of(250, 3), "c");
  Simulation invalid = simulation_of(1, 1);
  invalid.is_valid = false;
  archive.add(Plan(), invalid, "invalid");
  EXPECT_EQ(archive.fastest_within(99), nullptr);
  EXPECT_EQ(archive.fastest_within(249)->method, "a");
  EXPECT_EQ(archive.fastest_within(1000)->method, "c");
  EXPECT_EQ(archive.smallest()->method, "a");
  EXPECT_EQ(archive.smallest_within(4)->method, "c");
  EXPECT_EQ(archive.smallest_within(2), nullptr);
  EXPECT_EQ(archive.next_above(100)->method, "c");
  EXPECT_EQ(archive.next_above(250), nullptr);
}

TEST(TrialsTest, LongStepsCountForMore) {
  const ThreeSteps steps;
  const Simulator simulator(steps.trace);
  Archive archive;
  Trials trials(simulator, archive);
  trials.allow(10);
  trials.run(Problem(simulator).largest_plan(), "test");
  EXPECT_EQ(trials.left(), 9);
  Plan never(steps.trace);
  for (Choice& choice : never.choices) {
    choice.retained_from = Choice::kNever;
  }
  EXPECT_EQ(trials.run(never, "test").recompute_seconds, 11);  // of a step of 10
  EXPECT_EQ(trials.left(), 7);
}

TEST(RetainMenuTest, TakesTheCheapestWay) {
  const ThreeSteps steps;
  const StoreOption half{.name = "half", .retained_fraction = 0.5, .put_seconds_per_byte = 0.01};
  const StoreOption none{.name = "none", .latency_seconds = 2, .smallest_bytes = 150};
  const Simulator simulator(steps.trace, {half, none});
  const Problem problem(simulator);
  const RetainMenu menu(problem);
  const PricedWay cheap = menu.cheapest(steps.a, {.away = 1, .back = 1}, 1);
  EXPECT_EQ(cheap.store, kNone);
  EXPECT_EQ(cheap.price, 2);
  const PricedWay dearer = menu.cheapest(steps.a, {.away = 6, .back = 1}, 1);
  EXPECT_EQ(dearer.store, 0);
  EXPECT_DOUBLE_EQ(dearer.price, 3 + 1 + 1);
  EXPECT_EQ(menu.cheapest(steps.a, {.away = 1000, .back = 1}, 1).store, 0);  // too small for `none`
  const PricedWay most = menu.cheapest(steps.b, {.away = 1000, .back = 1}, 1);
  EXPECT_EQ(most.store, 1);
  EXPECT_DOUBLE_EQ(most.price, 4 + 1);
}

TEST(RetainMenuTest, FullStoresKeepWhatIsDearestToMakeAgain) {
  const ThreeSteps steps;
  const Simulator simulator(steps.trace, {{.name = "host", .capacity_bytes = 550}});
  const Problem problem(simulator);
  Cut cut{.is_retained = std::vector<bool>(steps.trace.values.size(), true), .is_rerun = {}};
  const std::vector<PricedWay> ways(steps.trace.values.size(), PricedWay{.store = 0, .price = 0});
  const Plan plan = RetainMenu(problem).plan_of(cut, ways);
  EXPECT_EQ(plan.choices[steps.c], Choice::put(0));  // 4 s for 300 bytes
  // a and b: 1 s for each 100 bytes; the first of both goes.
  EXPECT_EQ(plan.choices[steps.b], Choice::put(0));
  EXPECT_EQ(plan.choices[steps.a], Choice::recompute());
}

TEST(PriceSearchTest, PlansRangeFromAllToNothingRetained) {
  const ThreeSteps steps;
  Methods methods(steps.trace);
  auto& [simulator, problem, menu, archive, trials] = methods;
  trials.allow(100);
  PriceSearch(problem, menu, trials).sweep(32);
  EXPECT_EQ(trials.left(), 68);
  EXPECT_EQ(archive.fastest_within(std::numeric_limits<std::int64_t>::max())->simulation.seconds,
            10);
  // a and b cost as much per byte: no price separates them.
  EXPECT_EQ(archive.fastest_within(649)->simulation.recompute_seconds, 3);
}

TEST(PriceSearchTest, PricesThatFollowTheMemoryAreOfUse) {
  int better = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 40});
    Methods methods(trace);
    auto& [simulator, problem, menu, archive, trials] = methods;
    trials.allow(1000);
    const std::int64_t budget = trials.run(problem.largest_plan(), "all").peak_bytes * 3 / 4;
    PriceSearch prices(problem, menu, trials);
    prices.sweep(32);
    const auto* before = archive.fastest_within(budget);
    const double seconds =
        before == nullptr ? std::numeric_limits<double>::infinity() : before->simulation.seconds;
    prices.follow_memory(budget, 60);
    const auto* after = archive.fastest_within(budget);
    better += after != nullptr && after->simulation.seconds < seconds ? 1 : 0;
  }
  EXPECT_GE(better, 10);
}

TEST(EvictionTest, DropsWhatIsCheapestPerByteAtThePeak) {
  const ThreeSteps steps;
  Methods methods(steps.trace);
  auto& [simulator, problem, menu, archive, trials] = methods;
  trials.allow(100);
  Plan plan = problem.largest_plan();
  Reruns reruns(problem, plan);
  // The peak is where c is made: of b, which is read then, nothing can be dropped.
  const std::vector<Relief> reliefs =
      Eviction(problem, menu, trials).reliefs(plan, simulator.run(plan), reruns);
  ASSERT_EQ(reliefs.size(), 1U);
  EXPECT_EQ(reliefs[0].value, steps.a);
  EXPECT_EQ(reliefs[0].seconds, 1);
  EXPECT_EQ(reliefs[0].score, 0.01);
  const Simulation result = Eviction(problem, menu, trials).evict(plan, 550, 0, false, "eviction");
  EXPECT_EQ(result.peak_bytes, 550);
  EXPECT_EQ(plan.choices[steps.a], Choice::recompute());
  EXPECT_EQ(plan.choices[steps.b], Choice::retain());
}

TEST(EvictionTest, PeaksOnlyFallUnlessTheyMayRise) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 30});
    Methods methods(trace);
    auto& [simulator, problem, menu, archive, trials] = methods;
    trials.allow(200);
    Plan plan = problem.largest_plan();
    const Simulation before = simulator.run(plan);
    const Simulation after =
        Eviction(problem, menu, trials).evict(plan, 0, before.peak_bytes / 10, false, "eviction");
    EXPECT_LE(after.peak_bytes, before.peak_bytes);
    EXPECT_EQ(after.peak_bytes, simulator.run(plan).peak_bytes);
  }
}

TEST(LocalSearchTest, IsNeverWorseThanItsStart) {
  std::mt19937_64 random(3);
  int better = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Trace trace = random_trace(seed, {.forward_operators = 25});
    Methods methods(trace);
    auto& [simulator, problem, menu, archive, trials] = methods;
    trials.allow(150);
    const Plan start = keep_set(problem, random);
    const Simulation before = simulator.run(start);
    if (!before.is_valid) {
      continue;
    }
    LocalSearch search(problem, menu, trials, start, before.peak_bytes);
    search.run();
    const Simulation after = simulator.run(search.plan());
    EXPECT_LE(after.peak_bytes, before.peak_bytes);
    EXPECT_LE(after.seconds, before.seconds * (1 + 1e-9));
    better += after.seconds < before.seconds ? 1 : 0;
    LocalSearch lower(problem, menu, trials, start, 0);
    trials.allow(150);
    lower.run();
    EXPECT_LE(lower.simulation().peak_bytes, before.peak_bytes);
  }
  EXPECT_GE(better, 40);
}

}  // namespace
}  // namespace reprise::testing::search_test
