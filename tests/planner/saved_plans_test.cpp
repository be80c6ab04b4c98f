// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/format/saved_plans.h"
#include "tests/planner/format_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing::saved_plans_test {
namespace {

using planner_internal::SavedPlans;
using planner_internal::SavedStep;

constexpr const char* kLines[] = {
    R"({"format":"reprise-plans","version":1,"device":"cpu","torch":"2.9.0","peak_bytes":20000,)"
    R"("bytes_before_step":100,"stores":1,"steps":1})",
    R"({"kind":"aten::relu.#0","samples":2,"fraction":0.5,"bytes":65536,"put_seconds":2e-05})",
    R"({"format":"reprise-trace","version":1,"backward_begin":1})",
    R"({"value":0,"bytes":4096,"kind":"input","name":"x"})",
    R"({"value":1,"bytes":8192,"released":0})",
    R"({"operator":0,"name":"relu","seconds":1e-05,"reads":[0],"results":[1]})",
    R"({"operator":1,"name":"b","seconds":2.5,"can_recompute":false,"reads":[1]})",
    R"({"format":"reprise-step","version":1,"number":0,"recordings":2,"excess_bytes":-8,)"
    R"("excess_seconds":0.25,"timed_steps":2,"room_bytes":9000,"bound_seconds":2.5})",
    R"({"call":0,"operator":"aten::relu","overload":"out","seconds":0.25,"bytes":8192})",
    R"({"result":0,"value":1,"bytes":8192,"until_call":1})",
    R"({"format":"reprise-plan","version":1,"values":2})",
    R"({"value":1,"retained_from":0})",
};

std::vector<std::string> valid_lines() { return {std::begin(kLines), std::end(kLines)}; }

void expect_error(const std::string& text, const std::string& message) {
  expect_format_error(&planner_internal::saved_plans_from_text, text, message);
}

// Expects an error when the text `from` of line `number` is `to` instead.
void expect_error_with(std::size_t number, const std::string& from, const std::string& to,
                       const std::string& message) {
  std::vector<std::string> lines = valid_lines();
  std::string& line = lines.at(number - 1);
  const std::size_t position = line.find(from);
  ASSERT_NE(position, std::string::npos) << from;
  line.replace(position, from.size(), to);
  expect_error(joined(lines), message);
}

TEST(SavedPlansTest, TextReadsBackEqual) {
  const SavedPlans plans = planner_internal::saved_plans_from_text(joined(valid_lines()));
  EXPECT_EQ(plans.device, "cpu");
  EXPECT_EQ(plans.samples.at(0).put_seconds, 2e-5);
  const SavedStep& step = plans.steps.at(0);
  EXPECT_EQ(step.calls.at(0).overload, "out");
  EXPECT_EQ(step.calls.at(0).end_result, 1U);
  EXPECT_EQ(step.results.at(0).until_call, 1U);
  ASSERT_TRUE(step.plan.has_value());
  EXPECT_TRUE(step.plan->choices.choices.at(1).is_retained());
  EXPECT_EQ(planner_internal::to_text(plans), joined(valid_lines()));
}

TEST(SavedPlansTest, AStepWithoutAPlanReadsBackEqual) {
  std::vector<std::string> lines = valid_lines();
  lines.resize(10);
  lines[7] = R"({"format":"reprise-step","version":1,"number":0,"backward":"unobserved"})";
  const SavedPlans plans = planner_internal::saved_plans_from_text(joined(lines));
  EXPECT_FALSE(plans.steps.at(0).plan.has_value());
  EXPECT_EQ(planner_internal::to_text(plans), joined(lines));
}

TEST(SavedPlansTest, ForeignAndCutTextIsAnErrorWithItsLine) {
  expect_error("", "line 1 is not JSON");
  expect_error("<html>", "line 1 is not JSON");
  expect_error(joined({kLines[2]}), "line 1 is not the header of a reprise-plans");
  for (std::size_t lines = 1; lines < std::size(kLines); ++lines) {
    std::vector<std::string> cut = valid_lines();
    cut.resize(lines);
    if (lines != 11) {  // a plan without choices is one
      EXPECT_THROW(planner_internal::saved_plans_from_text(joined(cut)), std::invalid_argument)
          << lines;
    }
  }
  expect_error(joined(valid_lines()) + kLines[2], "line 13 is after the last step");
  expect_error_with(1, R"("version":1)", R"("version":2)", "line 1 has version 2, not 1");
  expect_error_with(8, R"("version":1)", R"("version":0)", "line 8 has version 0, not 1");
  expect_error_with(1, R"("steps":1)", R"("steps":2)", "line 13 is not JSON");
  expect_error_with(1, R"("steps":1)", R"("steps":1,"colour":1)", "unknown member \"colour\"");
}

TEST(SavedPlansTest, WhatDoesNotExistIsAnErrorWithItsLine) {
  const std::string range = "out of range";
  expect_error_with(1, "20000", "-1", "line 1 has \"peak_bytes\" " + range);
  expect_error_with(1, R"("stores":1)", R"("stores":128)", "line 1 has \"stores\" " + range);
  expect_error_with(1, R"("stores":1)", R"("stores":0)", "line 2 has a store");
  expect_error_with(1, R"("stores":1)", R"("stores":2)", "not as many samples");
  expect_error_with(2, R"("samples":2)", R"("store":1)", "line 2 has a store");
  expect_error_with(2, "2e-05", "1e300", "line 2 has \"put_seconds\" " + range);
  expect_error_with(2, "65536", "9223372036854775807", "line 2 has \"bytes\" " + range);
  expect_error_with(4, "4096", "-4096", "value 0 has negative bytes");
  expect_error_with(8, R"("number":0)", R"("number":1)", "step 0 has a number that is taken");
  expect_error_with(8, "-8", "-9223372036854775808", "line 8 has \"excess_bytes\" " + range);
  expect_error_with(8, "0.25", "1e300", "line 8 has \"excess_seconds\" " + range);
  expect_error_with(8, R"("timed_steps":2)", R"("timed_steps":5)", "\"timed_steps\" " + range);
  expect_error_with(8, "9000", "-1", "line 8 has \"room_bytes\" " + range);
  expect_error_with(8, R"("number":0)", R"("number":0,"backward":"x")", "unknown backward \"x\"");
  expect_error_with(9, R"("call":0)", R"("call":1)", "line 9 is not call 0");
  expect_error_with(9, "0.25", "1e39", "line 9 has \"seconds\" " + range);
  expect_error_with(9, "8192", "-1", "line 9 has \"bytes\" " + range);
  expect_error_with(10, R"("result":0)", R"("result":7)", "line 10 is not result 0");
  expect_error_with(10, R"("value":1)", R"("value":2)", "line 10 has a value that does not exist");
  expect_error_with(10, R"("value":1)", R"("value":-2)", "line 10 has a value that does not exist");
  expect_error_with(10, R"("until_call":1)", R"("until_call":2)", "stays until a call that does");
  expect_error_with(11, R"("values":2)", R"("values":3)", "line 11 is not values 2");
  expect_error_with(12, "0}", R"(0,"store":1})", "into a store that does not exist");
  expect_error_with(12, "0}", R"(1,"store":0})", "that is not retained");
  expect_error_with(12, "0}", "256}", "line 12 is wrong: \"retained_from\" is too large");
}

TEST(SavedPlansTest, PlansThatAreNotValidAreErrors) {
  std::vector<std::string> lines = valid_lines();
  lines[5] = R"({"operator":0,"name":"relu","can_recompute":false,"reads":[0],"results":[1]})";
  lines.pop_back();
  expect_error(joined(lines), "step 0 has a plan that needs a value which it does not have");
  lines = valid_lines();
  lines[8] = kLines[9];
  lines[9] = kLines[8];
  expect_error(joined(lines), "line 9 is of no call");
  lines = valid_lines();
  lines.insert(lines.begin() + 9, R"({"call":1,"operator":"aten::cos"})");
  expect_error(joined(lines), "line 11 stays until a call before the one that makes it");
}

TEST(SavedPlansTest, NamesThatAreNotTextAreErrors) {
  SavedPlans plans = planner_internal::saved_plans_from_text(joined(valid_lines()));
  plans.steps[0].calls[0].op = "\xff";
  EXPECT_THROW(planner_internal::to_text(plans), std::invalid_argument);
}

}  // namespace
}  // namespace reprise::testing::saved_plans_test
