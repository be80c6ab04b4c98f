// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "tests/planner/model_traces.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::trace_test {
namespace {

using planner::kNone;
using planner::Trace;
using planner::ValueKind;
using ::testing::HasSubstr;

// x -> a -> b (in the memory of a), c; backward reads b and makes g, then reads g.
Trace small_trace() {
  Trace trace;
  trace.add_value({.bytes = 8, .kind = ValueKind::kInput, .name = "x"});
  trace.add_value({.bytes = 4, .released = 1, .name = "a"});
  trace.add_value({.bytes = 4, .released = 1, .overwrites = 1, .name = "b"});
  trace.add_value({.bytes = 2, .name = "c"});
  trace.add_value({.bytes = 4, .released = 3, .kind = ValueKind::kGradient, .name = "g"});
  trace.operators.push_back({.name = "0", .seconds = 1, .reads = {0}, .results = {1}});
  trace.operators.push_back({.name = "1", .seconds = 2, .reads = {1}, .results = {2, 3}});
  trace.operators.push_back({.name = "2", .seconds = 4, .reads = {2}, .results = {4}});
  trace.operators.push_back({.name = "3", .seconds = 8, .reads = {4}, .results = {}});
  trace.backward_begin = 2;
  return trace;
}

void expect_invalid(const Trace& trace, const std::string& message) {
  try {
    trace.validate();
    ADD_FAILURE() << "valid, instead of: " << message;
  } catch (const std::invalid_argument& error) {
    EXPECT_THAT(error.what(), HasSubstr(message));
  }
}

TEST(TraceTest, KnowsProducersAndSeconds) {
  const Trace trace = small_trace();
  EXPECT_NO_THROW(trace.validate());
  EXPECT_THAT(trace.producers(), ::testing::ElementsAre(kNone, 0, 1, 1, 2));
  EXPECT_EQ(trace.seconds(), 15);
}

TEST(TraceTest, AnEmptyTraceIsValid) { EXPECT_NO_THROW(Trace{}.validate()); }

TEST(TraceTest, NumbersMustExist) {
  for (const std::int32_t number : {-1, 5, std::numeric_limits<std::int32_t>::max(),
                                    std::numeric_limits<std::int32_t>::min()}) {
    Trace trace = small_trace();
    trace.operators[3].reads = {number};
    expect_invalid(trace, "operator 3 reads a value that does not exist");
    trace = small_trace();
    trace.operators[3].results = {number};
    expect_invalid(trace, "operator 3 makes a value that does not exist");
    trace = small_trace();
    trace.backward_begin = number;
    expect_invalid(trace, "backward_begin " + std::to_string(number) + " is not the number");
    if (number != kNone) {
      trace = small_trace();
      trace.values[2].overwrites = number;
      expect_invalid(trace, "value 2 overwrites a value that does not exist");
      trace = small_trace();
      trace.values[3].released = number;
      expect_invalid(trace, "value 3 is released before it is made, or by no operator");
    }
  }
}

TEST(TraceTest, BackwardMayBeginAfterTheLastOperator) {
  Trace trace = small_trace();
  trace.operators.resize(2);
  trace.values.pop_back();
  EXPECT_NO_THROW(trace.validate());
  trace.backward_begin = 3;
  expect_invalid(trace, "backward_begin 3 is not the number of an operator");
}

TEST(TraceTest, BytesAndTimesAreFiniteAndNotNegative) {
  for (const double seconds :
       {-1e-9, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    Trace trace = small_trace();
    trace.operators[1].seconds = seconds;
    expect_invalid(trace, "operator 1 has a time that is negative or not finite");
  }
  Trace trace = small_trace();
  trace.operators[1].workspace_bytes = -1;
  expect_invalid(trace, "operator 1 has a negative workspace");
  trace = small_trace();
  trace.values[3].bytes = -1;
  expect_invalid(trace, "value 3 has negative bytes");
}

TEST(TraceTest, TimesOfAllOperatorsHaveALimit) {
  Trace trace = small_trace();
  trace.operators[0].seconds = 0x1p60 - 1024;
  EXPECT_NO_THROW(trace.validate());
  trace.operators[3].seconds = 0x1p60;
  expect_invalid(trace, "operator 3 brings the time of the trace above 2^60 seconds");
}

TEST(TraceTest, BytesOfAllValuesAndWorkspacesHaveALimit) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 60;
  Trace trace = small_trace();
  trace.values[0].bytes = kLimit - 14;  // beside those of the others
  EXPECT_NO_THROW(trace.validate());
  trace.operators[1].workspace_bytes = 1;
  expect_invalid(trace, "value 4 brings the bytes of the trace above 2^60");
  trace.operators[1].workspace_bytes = std::numeric_limits<std::int64_t>::max();
  expect_invalid(trace, "operator 1 brings the bytes of the trace above 2^60");
}

TEST(TraceTest, AValueIsMadeOnceAndBeforeItIsRead) {
  Trace trace = small_trace();
  trace.operators[3].results = {3};
  expect_invalid(trace, "value 3 is made twice");
  trace = small_trace();
  trace.operators[1].results = {2, 3, 3};
  expect_invalid(trace, "value 3 is made twice");
  trace = small_trace();
  trace.operators[0].reads = {3};
  expect_invalid(trace, "operator 0 reads a value that is made later");
  trace = small_trace();
  trace.operators[0].reads = {1};
  expect_invalid(trace, "operator 0 reads a value that is made later");
}

TEST(TraceTest, AValueIsReleasedNoEarlierThanItIsMade) {
  Trace trace = small_trace();
  trace.values[3].released = 0;
  expect_invalid(trace, "value 3 is released before it is made, or by no operator");
}

TEST(TraceTest, ForwardReadsWhatTheProgramHolds) {
  Trace trace = small_trace();
  trace.values[0].released = 0;
  EXPECT_NO_THROW(trace.validate());
  trace.operators[1].reads.push_back(0);
  expect_invalid(trace, "operator 1 reads a value that has been released");
}

TEST(TraceTest, BackwardReadsAnyValueOfForwardButOfItsOwnOnlyThoseHeld) {
  Trace trace = small_trace();
  trace.operators[3].reads = {2, 3, 0};
  EXPECT_NO_THROW(trace.validate());
  trace.values[4].released = 2;
  trace.operators[3].reads = {4};
  expect_invalid(trace, "operator 3 reads a value of backward that has been released");
}

TEST(TraceTest, AValueIsOverwrittenOnceAndByTheOperatorThatReleasesIt) {
  Trace trace = small_trace();
  trace.values[1].released = 2;
  expect_invalid(trace, "value 2 overwrites a value that is not released by the same operator");
  trace.values[1].released = kNone;
  expect_invalid(trace, "value 2 overwrites a value that is not released by the same operator");
  trace = small_trace();
  trace.values[3].overwrites = 1;
  expect_invalid(trace, "value 1 is overwritten twice");
  trace = small_trace();
  trace.values[2].overwrites = 2;
  expect_invalid(trace, "value 2 overwrites a value that does not exist");
  trace = small_trace();
  trace.values[0].overwrites = 1;
  expect_invalid(trace, "value 0 overwrites a value that is not released by the same operator");
}

TEST(TraceTest, AnEvictedValueIsMadeAndReleasedInForward) {
  Trace trace = small_trace();
  trace.values[1].is_evicted = true;
  EXPECT_NO_THROW(trace.validate());
  for (const int other : {0, 3, 4}) {  // from outside, held, of backward
    trace = small_trace();
    trace.values[other].is_evicted = true;
    expect_invalid(trace, "value " + std::to_string(other) +
                              " is evicted, and is not made and released in forward");
  }
}

TEST(TraceTest, RetainAllRetainsWhatBackwardReads) {
  const Trace trace = small_trace();
  planner::Plan expected(trace);
  expected.choices[2] = planner::Choice::retain();
  expected.choices[4] = planner::Choice::retain();
  const planner::Plan plan = planner::retain_all(trace);
  EXPECT_EQ(plan.choices[2], expected.choices[2]);
  for (const int other : {0, 1, 3}) {
    EXPECT_EQ(plan.choices[other], planner::Choice::recompute()) << other;
  }
}

TEST(TraceTest, RandomTracesAreEqualForEqualSeedsAndHaveWhatIsAskedFor) {
  int in_place = 0;
  int held = 0;
  int not_recomputable = 0;
  int several_results = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Trace trace = random_trace(seed);
    ASSERT_NO_THROW(trace.validate());
    ASSERT_EQ(trace.backward_begin, 20);
    ASSERT_GE(trace.operators.size(), 40U);
    for (planner::OperatorId op = 0; op < trace.backward_begin; ++op) {
      not_recomputable += trace.operators[op].can_recompute ? 0 : 1;
      several_results += trace.operators[op].results.size() > 1 ? 1 : 0;
      for (const planner::ValueId value : trace.operators[op].results) {
        in_place += trace.values[value].overwrites != kNone ? 1 : 0;
        held += trace.values[value].released >= trace.backward_begin ? 1 : 0;
      }
    }
    EXPECT_EQ(trace.seconds(), random_trace(seed).seconds());
    EXPECT_TRUE(planner::Simulator(trace).run(random_plan(trace, seed)).is_valid);
  }
  EXPECT_GT(in_place, 100);
  EXPECT_GT(held, 100);
  EXPECT_GT(not_recomputable, 100);
  EXPECT_GT(several_results, 400);
}

TEST(TraceTest, ModelsRetainWhatIsKnownOfThem) {
  // Of a block of width w: 34 bytes per token and unit of width (Korthikanti et al., 2023) beside
  // the matrix of scores, which takes 5 bytes per head and pair of tokens.
  const auto retained = [](const Trace& trace) {
    std::int64_t bytes = 0;
    const planner::Plan plan = planner::retain_all(trace);
    for (planner::OperatorId op = 0; op < trace.backward_begin; ++op) {
      for (const planner::ValueId value : trace.operators[op].results) {
        const bool is_statistics = trace.values[value].name == "statistics";
        bytes +=
            plan.choices[value].is_retained() && !is_statistics ? trace.values[value].bytes : 0;
      }
    }
    return bytes;
  };
  const std::int64_t rows = 4 * 128;
  EXPECT_EQ(
      retained(transformer(3, 256, 128, 4, false)) - retained(transformer(2, 256, 128, 4, false)),
      rows * (34 * 256 + 5 * 16 * 128));
  EXPECT_EQ(retained(mlp(5, 64, 32)) - retained(mlp(4, 64, 32)), 2 * 64 * 32);
}

TEST(TraceTest, EachModelIsValid) {
  for (const Trace& trace :
       {mlp(8), transformer(2, 256, 128, 4, true), transformer(2, 256, 128, 4, false),
        swiglu_stack(), resnet(4), densenet(6), unet(3), lstm(10)}) {
    EXPECT_NO_THROW(trace.validate());
    const planner::Simulator simulator(trace);
    const planner::Simulation all = simulator.run(planner::retain_all(trace));
    EXPECT_TRUE(all.is_valid);
    EXPECT_EQ(all.recompute_seconds, 0);
    EXPECT_TRUE(simulator.run(planner::Plan(trace)).is_valid);
  }
}

}  // namespace
}  // namespace reprise::testing::trace_test
