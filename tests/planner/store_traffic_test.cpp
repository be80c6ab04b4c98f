// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/schedule/store_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::store_traffic_test {
namespace {

using planner::Choice;
using planner::kNone;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::StoreOption;
using planner::Trace;
using planner::ValueId;
using ::testing::DoubleEq;
using ::testing::ElementsAre;

constexpr ValueId kA = 0;
constexpr ValueId kB = 1;

// Eight operators of 1 second. 0 makes a (100 bytes), 1 makes b (1000) from it, 2 makes c (10) from
// b. Backward begins with 3; 6 reads b and 7 reads a.
Trace small_step() {
  Trace trace;
  trace.add_value({.bytes = 100, .released = 1, .name = "a"});
  trace.add_value({.bytes = 1000, .released = 2, .name = "b"});
  trace.add_value({.bytes = 10, .released = 2, .name = "c"});
  for (int i = 0; i < 8; ++i) {
    trace.operators.push_back({.name = "op", .seconds = 1, .reads = {}, .results = {}});
  }
  trace.operators[0].results = {kA};
  trace.operators[1].reads = {kA};
  trace.operators[1].results = {kB};
  trace.operators[2].reads = {kB};
  trace.operators[2].results = {2};
  trace.operators[6].reads = {kB};
  trace.operators[7].reads = {kA};
  trace.backward_begin = 3;
  return trace;
}

Plan plan_that_puts(const Trace& trace, const std::vector<ValueId>& values) {
  Plan plan = retain_all(trace);
  for (const ValueId value : values) {
    plan.choices[value] = Choice::put(0);
  }
  return plan;
}

StoreOption overlapped(double put_seconds_per_byte, double get_seconds_per_byte) {
  StoreOption store;
  store.put_seconds_per_byte = put_seconds_per_byte;
  store.get_seconds_per_byte = get_seconds_per_byte;
  store.is_overlapped = true;
  return store;
}

std::vector<std::int64_t> live_bytes(const Simulator& simulator, const Plan& plan) {
  std::vector<std::int64_t> bytes;
  for (const planner::ScheduledRun& run : simulator.schedule(plan)) {
    bytes.push_back(run.live_bytes);
  }
  return bytes;
}

TEST(StoreTrafficTest, WithoutAStoreTheValuesStay) {
  const Trace trace = small_step();
  EXPECT_THAT(live_bytes(Simulator(trace), retain_all(trace)),
              ElementsAre(100, 1100, 1110, 1100, 1100, 1100, 1100, 100));
}

TEST(StoreTrafficTest, TheComputationWaitsForCopiesThatAreNotOverlapped) {
  const Trace trace = small_step();
  StoreOption store;
  store.put_seconds_per_byte = 0.03125;
  store.get_seconds_per_byte = 0.0625;
  store.latency_seconds = 0.5;
  const Simulator simulator(trace, {store});
  const Plan plan = plan_that_puts(trace, {kA});
  const Simulation result = simulator.run(plan);
  EXPECT_EQ(result.store_seconds, 3.125 + 0.5 + 6.25 + 0.5);
  EXPECT_EQ(result.seconds, 8 + result.store_seconds);
  EXPECT_EQ(result.recompute_seconds, 0);
  EXPECT_THAT(result.stored_bytes, ElementsAre(100));
  // It leaves when the program releases it, and comes back when it is used.
  EXPECT_THAT(live_bytes(simulator, plan),
              ElementsAre(100, 1100, 1010, 1000, 1000, 1000, 1000, 100));
  const Plan both = plan_that_puts(trace, {kA, kB});
  EXPECT_EQ(simulator.run(both).store_seconds, 1100 * 0.09375 + 4 * 0.5);
  EXPECT_THAT(live_bytes(simulator, both), ElementsAre(100, 1100, 1010, 0, 0, 0, 1000, 100));
  EXPECT_THAT(simulator.live_at_peak(both), ElementsAre(kB, kA));
}

TEST(StoreTrafficTest, PartOfAValueMayStay) {
  const Trace trace = small_step();
  StoreOption store;
  store.retained_fraction = 0.25;
  const Simulator simulator(trace, {store});
  EXPECT_THAT(live_bytes(simulator, plan_that_puts(trace, {kA})),
              ElementsAre(100, 1100, 1035, 1025, 1025, 1025, 1025, 100));
  EXPECT_THAT(simulator.run(plan_that_puts(trace, {kA})).stored_bytes, ElementsAre(100));
  store.retained_fraction = 1;
  EXPECT_THAT(live_bytes(Simulator(trace, {store}), plan_that_puts(trace, {kA})),
              ElementsAre(100, 1100, 1110, 1100, 1100, 1100, 1100, 100));
}

// a goes out from 1 to 2.5 s; it comes back in time, from 4.75 to 7 s.
TEST(StoreTrafficTest, OverlappedCopiesHideBehindTheComputation) {
  const Trace trace = small_step();
  const Simulator simulator(trace, {overlapped(0.015, 0.0225)});
  const Plan plan = plan_that_puts(trace, {kA});
  const Simulation result = simulator.run(plan);
  EXPECT_EQ(result.store_seconds, 0);
  EXPECT_EQ(result.seconds, 8);
  // Whole while it is copied.
  EXPECT_THAT(live_bytes(simulator, plan),
              ElementsAre(100, 1100, 1110, 1000, 1100, 1100, 1100, 100));
}

// a goes out from 1 to 1.5 s, and comes back from 1.5 to 9.5 s, though it is needed after 7 s.
TEST(StoreTrafficTest, TheComputationWaitsForAnOverlappedCopyThatIsLate) {
  const Trace trace = small_step();
  const Simulator simulator(trace, {overlapped(0.005, 0.08)});
  const Plan plan = plan_that_puts(trace, {kA});
  EXPECT_THAT(simulator.run(plan).store_seconds, DoubleEq(2.5));
  EXPECT_THAT(simulator.run(plan).seconds, DoubleEq(10.5));
  EXPECT_THAT(live_bytes(simulator, plan),
              ElementsAre(100, 1100, 1110, 1100, 1100, 1100, 1100, 100));
}

TEST(StoreTrafficTest, LatencyCountsPerCopy) {
  const Trace trace = small_step();
  StoreOption store = overlapped(0, 0);
  store.latency_seconds = 3.25;
  // Out from 1 to 4.25 s, in from 4.25 to 7.5 s.
  EXPECT_EQ(Simulator(trace, {store}).run(plan_that_puts(trace, {kA})).store_seconds, 0.5);
}

// Out: a from 1 to 1.5 s, b from 2 to 2.5 s. In: b, needed after 6 s,
// from 4.5 to 6 s; a, needed after 7 s, has to wait until then, and comes at 7.5 s.
TEST(StoreTrafficTest, ALinkBringsBackOneValueAtATimeInTheOrderOfUse) {
  Trace trace = small_step();
  trace.values[kB].bytes = 100;
  const Simulator simulator(trace, {overlapped(0.005, 0.015)});
  EXPECT_THAT(simulator.run(plan_that_puts(trace, {kA})).store_seconds, 0);
  EXPECT_THAT(simulator.run(plan_that_puts(trace, {kB})).store_seconds, 0);
  const Plan both = plan_that_puts(trace, {kA, kB});
  EXPECT_THAT(simulator.run(both).store_seconds, DoubleEq(0.5));
  // a is away from 2 to 6 s, b from 3 to 4.5 s.
  EXPECT_THAT(live_bytes(simulator, both), ElementsAre(100, 200, 110, 0, 100, 100, 200, 100));
}

// a is late by 4.5 s: b is used before it, so its wait moves the need for a. Both wait for the
// link.
TEST(StoreTrafficTest, AWaitPutsOffWhatIsNeededLater) {
  Trace trace = small_step();
  trace.values[kB].bytes = 100;
  const Simulator simulator(trace, {overlapped(0.005, 0.0625)});
  // b from 2.5 to 8.75 s, late by 2.75 s; a from then to 15 s, though it is needed at 9.75 s.
  EXPECT_THAT(simulator.run(plan_that_puts(trace, {kA, kB})).store_seconds, DoubleEq(2.75 + 5.25));
}

// a goes out from 1 to 4.5 s, and b only then: from 4.5 to 8 s, after its use at 6 s.
TEST(StoreTrafficTest, AValueDoesNotLeaveIfItsCopyOutwardsHasNotEndedWhenItIsUsed) {
  Trace trace = small_step();
  trace.values[kB].bytes = 100;
  const Simulator simulator(trace, {overlapped(0.035, 0.001)});
  const Plan both = plan_that_puts(trace, {kA, kB});
  EXPECT_EQ(simulator.run(both).store_seconds, 0);
  EXPECT_THAT(live_bytes(simulator, both), ElementsAre(100, 200, 210, 200, 200, 100, 200, 100));
  // Alone, b goes out from 2 to 5.5 s.
  EXPECT_THAT(live_bytes(simulator, plan_that_puts(trace, {kB})),
              ElementsAre(100, 200, 210, 200, 200, 200, 200, 100));
}

TEST(StoreTrafficTest, EachStoreHasLinksOfItsOwn) {
  Trace trace = small_step();
  trace.values[kB].bytes = 100;
  const Simulator simulator(trace, {overlapped(0.005, 0.015), overlapped(0.005, 0.015)});
  Plan plan = plan_that_puts(trace, {kA, kB});
  plan.choices[kB] = Choice::put(1);
  EXPECT_EQ(simulator.run(plan).store_seconds, 0);
  EXPECT_THAT(simulator.run(plan).stored_bytes, ElementsAre(100, 100));
}

TEST(StoreTrafficTest, AStoreIsNotFilledBeyondItsCapacity) {
  const Trace trace = small_step();
  StoreOption store;
  for (const std::int64_t capacity : {99, 100, 1099, 1100}) {
    store.capacity_bytes = capacity;
    const Simulator simulator(trace, {store});
    EXPECT_EQ(simulator.run(plan_that_puts(trace, {kA})).is_valid, capacity >= 100);
    const Plan both = plan_that_puts(trace, {kA, kB});
    EXPECT_EQ(simulator.run(both).is_valid, capacity >= 1100);
    EXPECT_EQ(simulator.schedule(both).empty(), capacity < 1100);
  }
}

TEST(StoreTrafficTest, ValuesThatAreTooSmallAreNotPut) {
  const Trace trace = small_step();
  StoreOption store;
  store.smallest_bytes = 100;
  EXPECT_TRUE(Simulator(trace, {store}).run(plan_that_puts(trace, {kA})).is_valid);
  store.smallest_bytes = 101;
  EXPECT_FALSE(Simulator(trace, {store}).run(plan_that_puts(trace, {kA})).is_valid);
  EXPECT_TRUE(Simulator(trace, {store}).run(plan_that_puts(trace, {kB})).is_valid);
}

TEST(StoreTrafficTest, WhatTheProgramHoldsOrBackwardDoesNotReadIsNotPut) {
  Trace trace = small_step();
  trace.values[kA].released = kNone;
  trace.values[kB].released = 6;
  StoreOption store;
  store.put_seconds_per_byte = 1;
  store.smallest_bytes = 1 << 20;
  const Simulator simulator(trace, {store});
  const Simulation result = simulator.run(plan_that_puts(trace, {kA, kB, 2}));
  EXPECT_TRUE(result.is_valid);
  EXPECT_EQ(result.store_seconds, 0);
  EXPECT_THAT(result.stored_bytes, ElementsAre(0));
}

TEST(StoreTrafficTest, ARerunThatReadsAStoredValueBringsItBack) {
  Trace trace = small_step();
  StoreOption store;
  store.get_seconds_per_byte = 0.0625;
  const Simulator simulator(trace, {store});
  Plan plan(trace);
  plan.choices[kA] = Choice::put(0);  // b is made from it for operator 6
  EXPECT_EQ(simulator.run(plan).store_seconds, 6.25);
  EXPECT_EQ(simulator.run(plan).recompute_seconds, 1);
  EXPECT_THAT(live_bytes(simulator, plan), ElementsAre(100, 1100, 1010, 0, 0, 0, 1100, 1100, 100));
}

TEST(StoreTrafficTest, ValuesDifferInWhatStaysOfThem) {
  const Trace trace = small_step();
  StoreOption store;
  store.retained_fractions = {1, 0.25, 1};
  const Simulator simulator(trace, {store});
  EXPECT_FALSE(simulator.run(plan_that_puts(trace, {kA})).is_valid);  // all of it would stay
  EXPECT_THAT(live_bytes(simulator, plan_that_puts(trace, {kB})),
              ElementsAre(100, 1100, 1110, 350, 350, 350, 1100, 100));
}

// In: b, needed after 6 s, from 4.5 s on; a from 6 s on.
TEST(StoreTrafficTest, FetchesBeginWithTheirCopies) {
  Trace trace = small_step();
  trace.values[kB].bytes = 100;
  const Simulator simulator(trace, {overlapped(0.005, 0.015), StoreOption()});
  const std::vector<planner::Fetch> fetches = simulator.fetches(plan_that_puts(trace, {kA, kB}));
  ASSERT_EQ(fetches.size(), 2);
  EXPECT_EQ(fetches[0].value, kB);
  EXPECT_EQ(fetches[0].before, 4);
  EXPECT_EQ(fetches[1].value, kA);
  EXPECT_EQ(fetches[1].before, 6);
  // The computation waits for the other store.
  Plan plan = retain_all(trace);
  plan.choices[kA] = Choice::put(1);
  EXPECT_TRUE(simulator.fetches(plan).empty());
}

TEST(StoreTrafficTest, AFreeStoreNeverRaisesThePeakAndNeverChangesTheTime) {
  StoreOption store;
  int lower = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Trace trace = random_trace(seed);
    const Plan retained = random_plan(trace, seed);
    Plan put = retained;
    for (Choice& choice : put.choices) {
      choice.store = choice.is_retained() ? 0 : kNone;
    }
    store.is_overlapped = seed % 2 == 0;
    const Simulator simulator(trace, {store});
    const Simulation before = simulator.run(retained);
    const Simulation after = simulator.run(put);
    EXPECT_LE(after.peak_bytes, before.peak_bytes);
    EXPECT_EQ(after.seconds, before.seconds);
    lower += after.peak_bytes < before.peak_bytes ? 1 : 0;
  }
  EXPECT_GT(lower, 50);
}

}  // namespace
}  // namespace reprise::testing::store_traffic_test
