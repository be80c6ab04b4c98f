// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <utility>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::testing::simulator_test {
namespace {

using planner::Choice;
using planner::kNone;
using planner::OperatorId;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;
using ::testing::ElementsAre;

ValueId add_value(Trace& trace, std::int64_t bytes, OperatorId released,
                  ValueId overwrites = kNone) {
  return trace.add_value(
      {.bytes = bytes, .released = released, .overwrites = overwrites, .name = "v"});
}

void add_operator(Trace& trace, double seconds, std::vector<ValueId> reads,
                  std::vector<ValueId> results) {
  trace.operators.push_back(
      {.name = "op", .seconds = seconds, .reads = std::move(reads), .results = std::move(results)});
}

std::vector<std::int64_t> live_bytes(const Simulator& simulator, const Plan& plan) {
  std::vector<std::int64_t> bytes;
  for (const planner::ScheduledRun& run : simulator.schedule(plan)) {
    bytes.push_back(run.live_bytes);
  }
  return bytes;
}

std::vector<OperatorId> operators(const Simulator& simulator, const Plan& plan) {
  std::vector<OperatorId> operators;
  for (const planner::ScheduledRun& run : simulator.schedule(plan)) {
    operators.push_back(run.op);
  }
  return operators;
}

// x (1) -> 0 -> a (10) -> 1 -> b (20) -> 2 -> c (40); 3, 4 and 5 read c, b and a. Operator i takes
// 2^i seconds.
Trace chain() {
  Trace trace;
  const ValueId x = add_value(trace, 1, kNone);
  const ValueId a = add_value(trace, 10, 1);
  const ValueId b = add_value(trace, 20, 2);
  const ValueId c = add_value(trace, 40, 2);
  add_operator(trace, 1, {x}, {a});
  add_operator(trace, 2, {a}, {b});
  add_operator(trace, 4, {b}, {c});
  add_operator(trace, 8, {c}, {});
  add_operator(trace, 16, {b}, {});
  add_operator(trace, 32, {a}, {});
  trace.backward_begin = 3;
  return trace;
}

TEST(SimulatorTest, AChainThatIsRetained) {
  const Trace trace = chain();
  const Simulator simulator(trace);
  const Simulation result = simulator.run(retain_all(trace));
  EXPECT_TRUE(result.is_valid);
  EXPECT_THAT(live_bytes(simulator, retain_all(trace)), ElementsAre(11, 31, 71, 71, 31, 11));
  EXPECT_EQ(result.peak_bytes, 71);
  EXPECT_EQ(result.peak_operator, 2);
  EXPECT_EQ(result.peak_during, 2);
  EXPECT_EQ(result.seconds, 63);
  EXPECT_EQ(result.recompute_seconds, 0);
  EXPECT_EQ(result.store_seconds, 0);
}

TEST(SimulatorTest, AChainThatIsRecomputedOnce) {
  const Trace trace = chain();
  const Simulator simulator(trace);
  const Plan plan(trace);
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(11, 31, 61, 11, 31, 71, 71, 31, 11));
  const Simulation result = simulator.run(plan);
  EXPECT_EQ(result.peak_bytes, 71);
  EXPECT_EQ(result.peak_operator, 2);
  EXPECT_EQ(result.peak_during, 3);
  EXPECT_EQ(result.seconds, 63 + 7);
  EXPECT_EQ(result.recompute_seconds, 7);
}

TEST(SimulatorTest, AnEvictedValueIsNotThereWhateverThePlan) {
  Trace trace = chain();
  trace.values[2].is_evicted = true;
  const Simulator simulator(trace);
  const Plan plan = retain_all(trace);
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 3, 1, 4, 5));
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(11, 31, 71, 51, 31, 31, 11));
  EXPECT_EQ(simulator.run(plan).recompute_seconds, 2);
}

TEST(SimulatorTest, AChainThatIsRecomputedEachTime) {
  const Trace trace = chain();
  const Simulator simulator(trace);
  Plan plan(trace);
  for (Choice& choice : plan.choices) {
    choice.retained_from = Choice::kNever;
  }
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 0, 1, 2, 3, 0, 1, 4, 0, 5));
  // What is made on the way goes after its last use on the way.
  EXPECT_THAT(live_bytes(simulator, plan),
              ElementsAre(11, 31, 61, 11, 31, 61, 41, 11, 31, 21, 11, 11));
  EXPECT_EQ(simulator.run(plan).recompute_seconds, 7 + 3 + 1);
}

TEST(SimulatorTest, AValueStaysFromTheTimeOnThatThePlanSays) {
  const Trace trace = chain();
  const Simulator simulator(trace);
  Plan plan(trace);
  plan.choices[1].retained_from = 2;
  plan.choices[2].retained_from = Choice::kNever;
  // The first time a goes after b is made, the second time it stays.
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 0, 1, 2, 3, 0, 1, 4, 5));
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(11, 31, 61, 11, 31, 61, 41, 11, 31, 31, 11));
  plan.choices[1].retained_from = 3;
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 0, 1, 2, 3, 0, 1, 4, 0, 5));
}

// x -> 0 -> a; 1 and 2 make b and c from a, 3 makes d from both; 4 reads d, 5 reads b and c.
TEST(SimulatorTest, ADiamondRunsItsTopOnce) {
  Trace trace;
  const ValueId x = add_value(trace, 1, kNone);
  const ValueId a = add_value(trace, 10, 2);
  const ValueId b = add_value(trace, 100, 3);
  const ValueId c = add_value(trace, 1000, 3);
  const ValueId d = add_value(trace, 10000, 3);
  add_operator(trace, 1, {x}, {a});
  add_operator(trace, 2, {a}, {b});
  add_operator(trace, 4, {a}, {c});
  add_operator(trace, 8, {b, c}, {d});
  add_operator(trace, 16, {d}, {});
  add_operator(trace, 32, {b, c}, {});
  trace.backward_begin = 4;
  const Simulator simulator(trace);
  EXPECT_THAT(operators(simulator, Plan(trace)), ElementsAre(0, 1, 2, 3, 0, 1, 2, 3, 4, 5));
  EXPECT_THAT(live_bytes(simulator, Plan(trace)),
              ElementsAre(11, 111, 1111, 11101, 11, 111, 1111, 11101, 11101, 1101));
  Plan plan(trace);
  plan.choices[a].retained_from = Choice::kNever;
  plan.choices[d] = Choice::retain();
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 3, 4, 0, 1, 2, 5));
  EXPECT_THAT(live_bytes(simulator, plan),
              ElementsAre(11, 111, 1111, 11101, 10001, 11, 111, 1111, 1101));
}

TEST(SimulatorTest, WhatARequestMakesServesLaterRequestsOfTheSameOperator) {
  Trace trace;
  const ValueId x = add_value(trace, 1, kNone);
  const ValueId a = add_value(trace, 10, 1);
  const ValueId b = add_value(trace, 100, 1);
  add_operator(trace, 1, {x}, {a});
  add_operator(trace, 2, {a}, {b});
  add_operator(trace, 4, {b, a}, {});
  trace.backward_begin = 2;
  const Simulator simulator(trace);
  Plan plan(trace);
  plan.choices[a].retained_from = Choice::kNever;
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 0, 1, 2));
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(11, 111, 11, 111, 111));
}

TEST(SimulatorTest, AWriteInPlaceNeedsNoMemoryInForwardNorWhenItRunsAgain) {
  Trace trace;
  const ValueId x = add_value(trace, 1, kNone);
  const ValueId a = add_value(trace, 10, 1);
  const ValueId b = add_value(trace, 10, 2, a);
  const ValueId c = add_value(trace, 5, 2);
  add_operator(trace, 1, {x}, {a});
  add_operator(trace, 2, {a}, {b});
  add_operator(trace, 4, {b}, {c});
  add_operator(trace, 8, {}, {});
  add_operator(trace, 16, {b}, {});
  trace.backward_begin = 3;
  const Simulator simulator(trace);
  EXPECT_THAT(live_bytes(simulator, retain_all(trace)), ElementsAre(11, 11, 16, 11, 11));
  EXPECT_THAT(live_bytes(simulator, Plan(trace)), ElementsAre(11, 11, 16, 1, 11, 11, 11));
  Plan plan = retain_all(trace);
  plan.choices[a] = Choice::retain();  // of no use, and therefore not kept either
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(11, 11, 16, 11, 11));
  trace.operators[1].workspace_bytes = 20;
  EXPECT_EQ(Simulator(trace).run(plan).peak_operator, 1);
  EXPECT_THAT(Simulator(trace).live_at_peak(plan), ElementsAre(b, x)) << "a has become b";
  trace.operators[1].workspace_bytes = 0;
  trace.operators[4].reads.push_back(a);
  EXPECT_THAT(live_bytes(Simulator(trace), plan), ElementsAre(11, 21, 26, 21, 21)) << "two blocks";
}

TEST(SimulatorTest, ResultsThatAreNotNeededAreThereWhileTheirOperatorRuns) {
  Trace trace;
  const ValueId x = add_value(trace, 1, kNone);
  const ValueId a = add_value(trace, 10, 0);
  const ValueId b = add_value(trace, 100, 0);
  const ValueId c = add_value(trace, 1000, 0);
  add_operator(trace, 1, {x}, {a, b, c});
  add_operator(trace, 2, {a, b}, {});
  add_operator(trace, 4, {a}, {});
  trace.backward_begin = 1;
  const Simulator simulator(trace);
  EXPECT_THAT(live_bytes(simulator, Plan(trace)), ElementsAre(1111, 1111, 111, 11));
  Plan plan(trace);
  plan.choices[a] = Choice::retain();
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(1111, 1121, 111, 11)) << "a beside a";
  plan.choices[b] = Choice::retain();
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(1111, 111, 11));
}

TEST(SimulatorTest, WhatTheProgramHoldsIsThere) {
  Trace trace = chain();
  trace.values[3].released = kNone;
  trace.values[2].released = 3;
  const Simulator simulator(trace);
  const Plan plan(trace);
  EXPECT_THAT(operators(simulator, plan), ElementsAre(0, 1, 2, 3, 0, 1, 4, 5));
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(11, 31, 61, 61, 51, 71, 71, 51));
  trace.values[2].released = 4;
  EXPECT_THAT(operators(Simulator(trace), plan), ElementsAre(0, 1, 2, 3, 4, 0, 5));
}

TEST(SimulatorTest, WhatExistsBeforeTheStepIsThereUntilItsLastUse) {
  Trace trace = chain();
  trace.values[0].released = 0;
  const Simulator simulator(trace);
  EXPECT_THAT(live_bytes(simulator, retain_all(trace)), ElementsAre(11, 30, 70, 70, 30, 10));
  // Held for the operator that runs again.
  EXPECT_THAT(live_bytes(simulator, Plan(trace)), ElementsAre(11, 31, 61, 11, 30, 70, 70, 30, 10));
}

TEST(SimulatorTest, WorkspaceCountsWhileItsOperatorRuns) {
  Trace trace = chain();
  trace.operators[0].workspace_bytes = 500;
  trace.operators[5].workspace_bytes = 500;
  const Simulator simulator(trace);
  EXPECT_THAT(live_bytes(simulator, retain_all(trace)), ElementsAre(511, 31, 71, 71, 31, 511));
  const Simulation result = simulator.run(retain_all(trace));
  EXPECT_EQ(result.peak_bytes, 511);
  EXPECT_EQ(result.peak_operator, 0) << "the first of two";
  EXPECT_EQ(simulator.schedule(retain_all(trace))[5].workspace_bytes, 500);
}

TEST(SimulatorTest, WhatCannotBeRecomputedMustBeRetained) {
  Trace trace = chain();
  trace.operators[1].can_recompute = false;
  const Simulator simulator(trace);
  Plan plan(trace);
  EXPECT_FALSE(simulator.run(plan).is_valid);
  EXPECT_TRUE(simulator.schedule(plan).empty());
  EXPECT_TRUE(simulator.live_at_peak(plan).empty());
  plan.choices[2] = Choice::retain();
  EXPECT_TRUE(simulator.run(plan).is_valid);
  EXPECT_EQ(simulator.run(plan).recompute_seconds, 1 + 4);
  plan.choices[2] = Choice::recompute();
  trace.values[2].released = 4;
  EXPECT_TRUE(Simulator(trace).run(plan).is_valid) << "held by the program";
  trace.values[2].released = 3;
  EXPECT_FALSE(Simulator(trace).run(plan).is_valid);
}

TEST(SimulatorTest, PlansForOtherTracesAndStoresAreErrors) {
  const Trace trace = chain();
  const Simulator simulator(trace);
  EXPECT_THROW(simulator.run(Plan()), std::invalid_argument);
  EXPECT_THROW(simulator.schedule(Plan()), std::invalid_argument);
  EXPECT_THROW(simulator.live_at_peak(Plan()), std::invalid_argument);
  Plan plan(trace);
  plan.choices[0].store = 0;
  EXPECT_THROW(simulator.run(plan), std::invalid_argument);
  Trace invalid = chain();
  invalid.values[0].bytes = -1;
  EXPECT_THROW(Simulator{invalid}, std::invalid_argument);
}

TEST(SimulatorTest, AnEmptyStepNeedsNothing) {
  const Trace trace;
  const Simulator simulator(trace);
  const Simulation result = simulator.run(Plan(trace));
  EXPECT_TRUE(result.is_valid);
  EXPECT_EQ(result.peak_bytes, 0);
  EXPECT_EQ(result.seconds, 0);
  EXPECT_TRUE(simulator.live_at_peak(Plan(trace)).empty());
}

TEST(SimulatorTest, AStepWithoutOperatorsHasAnEmptySchedule) {
  Trace trace;
  trace.add_value({.bytes = 8});
  const Simulator simulator(trace);
  EXPECT_TRUE(simulator.run(Plan(trace)).is_valid);
  EXPECT_TRUE(simulator.schedule(Plan(trace)).empty());
  EXPECT_TRUE(simulator.fetches(Plan(trace)).empty());
}

}  // namespace
}  // namespace reprise::testing::simulator_test
