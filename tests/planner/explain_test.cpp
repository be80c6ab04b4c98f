// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::testing::explain_test {
namespace {

using planner::Choice;
using planner::Plan;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;
using ::testing::HasSubstr;

class ExplainTest : public ::testing::Test {
 protected:
  ExplainTest() {
    input_ = trace_.add_value({.bytes = 8, .kind = planner::ValueKind::kInput});
    first_ = trace_.add_value({.bytes = 4096, .released = 1});
    second_ = trace_.add_value({.bytes = 2048, .released = 1});
    trace_.operators = {
        {.name = "aten::mm", .seconds = 3e-3, .reads = {input_}, .results = {first_}},
        {.name = "aten::gelu", .seconds = 1e-3, .reads = {first_}, .results = {second_}},
        {.name = "GeluBackward", .seconds = 2e-3, .reads = {first_}},
    };
    trace_.backward_begin = 2;
  }

  std::string explain(Choice of_first, const std::string& op) const {
    Plan plan(trace_);
    plan.choices[first_] = of_first;
    return planner::explain(Simulator(trace_), plan, op);
  }

  Trace trace_;
  ValueId input_ = planner::kNone, first_ = planner::kNone, second_ = planner::kNone;
};

TEST_F(ExplainTest, NamesBytesTimesAndReadersOfARetainedValue) {
  const std::string text = explain(Choice::retain(), "aten::mm");
  EXPECT_THAT(text, HasSubstr("#0 aten::mm: 3.00 ms, of forward"));
  EXPECT_THAT(text, HasSubstr("retained: takes 4.00 KiB from #1 aten::gelu"));
  EXPECT_THAT(text, HasSubstr("recomputing it takes 3.00 ms and 1 operator"));
  EXPECT_THAT(text, HasSubstr("read by #2 GeluBackward"));
}

TEST_F(ExplainTest, SaysHowOftenAnOperatorRunsAgain) {
  const std::string text = explain(Choice::recompute(), "0");
  EXPECT_THAT(text, HasSubstr("runs again 1 time"));
  EXPECT_THAT(text, HasSubstr("recomputed once: saves 4.00 KiB"));
}

TEST_F(ExplainTest, SaysThatBackwardDoesNotNeedAValue) {
  EXPECT_THAT(explain(Choice::recompute(), "#1"), HasSubstr("backward does not need it"));
}

TEST_F(ExplainTest, RefusesAnOperatorThatIsNotThere) {
  EXPECT_THROW(explain(Choice::retain(), "aten::silu"), std::invalid_argument);
  EXPECT_THROW(explain(Choice::retain(), "3"), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::testing::explain_test
