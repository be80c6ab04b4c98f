// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/memory_timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::memory_timeline_test {
namespace {

using planner::Choice;
using planner::MemoryClass;
using planner::MemoryMoment;
using planner::MemoryTimeline;
using planner::Plan;
using planner::Residence;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;
using ::testing::ElementsAre;

// Two operators of forward, of whose results backward reads the first, after a gradient.
Trace small_step() {
  Trace trace;
  const ValueId input = trace.add_value({.bytes = 8, .kind = planner::ValueKind::kInput});
  const ValueId first = trace.add_value({.bytes = 4096, .released = 1});
  const ValueId second = trace.add_value({.bytes = 2048, .released = 1});
  const ValueId gradient = trace.add_value({.bytes = 16, .released = 3});
  trace.operators = {
      {.name = "mm", .seconds = 3, .workspace_bytes = 64, .reads = {input}, .results = {first}},
      {.name = "gelu", .seconds = 1, .reads = {first}, .results = {second}},
      {.name = "mean_backward", .seconds = 1, .results = {gradient}},
      {.name = "gelu_backward", .seconds = 2, .reads = {first}},
  };
  trace.backward_begin = 2;
  return trace;
}

std::vector<std::tuple<ValueId, MemoryClass, int, int>> bars_of(const MemoryTimeline& timeline) {
  std::vector<std::tuple<ValueId, MemoryClass, int, int>> bars;
  for (const Residence& each : timeline.residences) {
    bars.emplace_back(each.value, each.memory_class, each.first_run, each.last_run);
  }
  return bars;
}

TEST(MemoryTimelineTest, HasTheMemoryByClassAndTheBarsOfValues) {
  const Trace trace = small_step();
  const Simulator simulator(trace);
  Plan plan(trace);
  plan.choices[1] = Choice::retain();
  const MemoryTimeline retained = planner::memory_timeline(simulator, plan);
  EXPECT_THAT(bars_of(retained), ElementsAre(std::tuple(0, MemoryClass::kBeforeStep, 0, 3),
                                             std::tuple(1, MemoryClass::kRetained, 0, 3),
                                             std::tuple(2, MemoryClass::kOther, 1, 1),
                                             std::tuple(3, MemoryClass::kGradients, 2, 3)));
  ASSERT_EQ(retained.moments.size(), 4U);
  EXPECT_THAT(retained.moments[0].bytes, ElementsAre(8, 0, 4096, 0, 0, 64));
  EXPECT_THAT(retained.moments[1].bytes, ElementsAre(8, 0, 4096, 0, 2048, 0));
  EXPECT_THAT(retained.moments[3].bytes, ElementsAre(8, 16, 4096, 0, 0, 0));
  EXPECT_EQ(retained.peak, 1U);
  EXPECT_EQ(retained.moments[3].begin_seconds, 5);
  EXPECT_EQ(retained.moments[3].end_seconds, 7);

  const MemoryTimeline recomputed = planner::memory_timeline(simulator, Plan(trace));
  EXPECT_THAT(bars_of(recomputed), ElementsAre(std::tuple(0, MemoryClass::kBeforeStep, 0, 4),
                                               std::tuple(1, MemoryClass::kOther, 0, 1),
                                               std::tuple(2, MemoryClass::kOther, 1, 1),
                                               std::tuple(3, MemoryClass::kGradients, 2, 4),
                                               std::tuple(1, MemoryClass::kRecomputed, 3, 4)));
  EXPECT_EQ(recomputed.moments[3].op, 0);
  EXPECT_EQ(recomputed.moments[3].requested_by, 3);
}

// Stores that copy beside the computation, and that keep a part of a value.
const std::vector<planner::StoreOption>& some_stores() {
  static const std::vector<planner::StoreOption> kStores = {
      {.name = "host",
       .put_seconds_per_byte = 1e-6,
       .get_seconds_per_byte = 1e-6,
       .is_overlapped = true},
      {.name = "packed", .retained_fraction = 0.25}};
  return kStores;
}

TEST(MemoryTimelineTest, ResidencesAddUpToTheScheduleAndThePeak) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed);
    const Simulator simulator(trace, some_stores());
    Plan plan = random_plan(trace, seed);
    for (std::size_t value = 0; value < plan.choices.size(); ++value) {
      if (plan.choices[value].is_retained() && value % 3 != 0) {
        plan.choices[value] = Choice::put(static_cast<int>(value % 3) - 1);
      }
    }
    const planner::Simulation simulation = simulator.run(plan);
    const std::vector<planner::ScheduledRun> schedule = simulator.schedule(plan);
    const MemoryTimeline timeline = planner::memory_timeline(simulator, plan);
    ASSERT_EQ(timeline.moments.size(), schedule.size());
    for (std::size_t run = 0; run < schedule.size(); ++run) {
      const MemoryMoment& moment = timeline.moments[run];
      EXPECT_EQ(moment.total_bytes(), schedule[run].live_bytes) << seed << ", run " << run;
      EXPECT_EQ(moment.bytes[static_cast<std::size_t>(MemoryClass::kRetained)],
                schedule[run].retained_bytes);
      EXPECT_EQ(moment.bytes[static_cast<std::size_t>(MemoryClass::kRecomputed)],
                schedule[run].recomputed_bytes);
    }
    const MemoryMoment& peak = timeline.moments.at(timeline.peak);
    EXPECT_EQ(peak.total_bytes(), simulation.peak_bytes);
    EXPECT_EQ(peak.op, simulation.peak_operator);
  }
}

TEST(MemoryTimelineTest, IsEmptyForAPlanThatIsNotValid) {
  Trace trace = small_step();
  trace.operators[0].can_recompute = false;
  const MemoryTimeline timeline = planner::memory_timeline(Simulator(trace), Plan(trace));
  EXPECT_TRUE(timeline.moments.empty());
  EXPECT_TRUE(timeline.residences.empty());
}

}  // namespace
}  // namespace reprise::testing::memory_timeline_test
