// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/trace_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/planner/format_lines.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::trace_format_test {
namespace {

using planner::Plan;
using planner::Trace;
using ::testing::HasSubstr;

auto members(const planner::Value& value) {
  return std::tie(value.bytes, value.released, value.overwrites, value.is_evicted, value.kind,
                  value.name);
}
auto members(const planner::Operator& op) {
  return std::tuple(op.name, std::bit_cast<std::uint64_t>(op.seconds), op.workspace_bytes,
                    op.can_recompute, op.reads, op.results, op.stack, op.once);
}

void expect_equal(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.values.size(), b.values.size());
  ASSERT_EQ(a.operators.size(), b.operators.size());
  EXPECT_EQ(a.backward_begin, b.backward_begin);
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    EXPECT_EQ(members(a.values[i]), members(b.values[i])) << i;
  }
  for (std::size_t i = 0; i < a.operators.size(); ++i) {
    EXPECT_EQ(members(a.operators[i]), members(b.operators[i])) << i;
  }
}

// Any double that is not negative, and that a trace may have.
double any_seconds(std::mt19937_64& random) {
  double seconds = 0;
  do {
    seconds = std::abs(std::bit_cast<double>(static_cast<std::uint64_t>(random())));
  } while (!(seconds < 0x1p50));
  return seconds;
}

constexpr const char* kHeader = R"({"format":"reprise-trace","version":1,"backward_begin":1})";

// A valid trace, line by line.
std::vector<std::string> valid_lines() {
  return {kHeader, R"({"value":0,"bytes":4096,"kind":"input","name":"x"})",
          R"({"value":1,"bytes":8192,"released":0})",
          R"({"operator":0,"name":"relu","seconds":1e-05,"reads":[0],"results":[1]})",
          R"({"operator":1,"name":"b","seconds":2.5,"can_recompute":false,"reads":[1]})"};
}

void expect_error(const std::string& text, const std::string& message) {
  expect_format_error(&planner::trace_from_text, text, message);
}

// With one line of the valid text replaced.
void expect_error_in_line(std::size_t number, const std::string& line, const std::string& message) {
  std::vector<std::string> lines = valid_lines();
  lines.at(number - 1) = line;
  expect_error(joined(lines), "line " + std::to_string(number) + ' ' + message);
}

TEST(TraceFormatTest, TheTextOfATraceIsTheOneThatIsDocumented) {
  EXPECT_EQ(planner::to_text(planner::trace_from_text(joined(valid_lines()))),
            joined(valid_lines()));
}

TEST(TraceFormatTest, TracesReadBackBitForBit) {
  std::mt19937_64 random(1);
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Trace trace = random_trace(seed);
    for (planner::Operator& op : trace.operators) {
      op.seconds = any_seconds(random);
    }
    for (planner::OperatorId op = 0; op < trace.backward_begin; ++op) {
      for (const planner::ValueId result : trace.operators[op].results) {
        const planner::OperatorId released = trace.values[result].released;
        trace.values[result].is_evicted =
            released != planner::kNone && released < trace.backward_begin && random() % 4 == 0;
      }
    }
    trace.values[0].name = "\"quoted\"\n\t\\ \xc3\xa4 \x01";
    trace.values[0].bytes = std::int64_t{1} << 59;
    expect_equal(trace, planner::trace_from_text(planner::to_text(trace)));
  }
  Trace negative_zero = random_trace(1);
  negative_zero.operators[0].seconds = -0.0;
  expect_equal(negative_zero, planner::trace_from_text(planner::to_text(negative_zero)));
  expect_equal(Trace{}, planner::trace_from_text(planner::to_text(Trace{})));
}

TEST(TraceFormatTest, ValuesAndOperatorsMayBeMixedAndLinesEndAsOnWindows) {
  std::vector<std::string> lines = valid_lines();
  std::swap(lines[2], lines[3]);
  std::string text;
  for (const std::string& line : lines) {
    text += line + "\r\n";
  }
  text.resize(text.size() - 2);
  expect_equal(planner::trace_from_text(text), planner::trace_from_text(joined(valid_lines())));
}

TEST(TraceFormatTest, OnlyValidTracesAreWritten) {
  Trace trace = random_trace(1);
  trace.operators[0].seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(planner::to_text(trace), std::invalid_argument);
  trace = random_trace(1);
  trace.operators[0].name = "\xff";
  EXPECT_THROW(planner::to_text(trace), std::invalid_argument);
}

TEST(TraceFormatTest, TheHeaderIsChecked) {
  expect_error("", "line 1 is not JSON");
  expect_error("\n", "line 1 is not JSON");
  expect_error("{}", "line 1 is not the header of a reprise-trace");
  expect_error_in_line(1, R"({"format":"reprise-plan","version":1})", "is not the header");
  expect_error_in_line(1, R"({"format":"reprise-trace","backward_begin":1})", "has version 0");
  expect_error_in_line(1, R"({"format":"reprise-trace","version":2})", "has version 2, not 1");
  expect_error_in_line(1, R"({"format":"reprise-trace","version":"1"})",
                       "is wrong: \"version\" is not an integer");
  expect_error_in_line(1, R"({"format":"reprise-trace","version":1,"more":1})",
                       "has an unknown member \"more\"");
  expect_error_in_line(1, R"({"format":"reprise-trace","version":1,"backward_begin":2147483648})",
                       "is wrong: \"backward_begin\" is too large");
}

TEST(TraceFormatTest, MalformedLinesAreErrors) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is not JSON"},
      {R"({"value":1)", "is not JSON at byte"},
      {R"({"value":1}})", "is not JSON at byte"},
      {R"({"value":1,})", "is not JSON at byte"},
      {"[1]", "is not an object"},
      {"1", "is not an object"},
      {"null", "is wrong"},
      {R"({"bytes":1})", "is not operator 0"},
      {R"({"value":2})", "is not value 1"},
      {R"({"value":1,"operator":0})", "has an unknown member \"operator\""},
      {R"({"value":1,"colour":1})", "has an unknown member \"colour\""},
      {R"({"value":1,"bytes":1,"bytes":1})", "is wrong: \"bytes\" is there twice"},
      {R"({"value":1,"bytes":1.5})", "is wrong: \"bytes\" is not an integer"},
      {R"({"value":1,"bytes":true})", "is wrong: \"bytes\" is not an integer"},
      {R"({"value":1,"bytes":null})", "is wrong"},
      {R"({"value":1,"bytes":9223372036854775808})", "is wrong: \"bytes\" is too large"},
      {R"({"value":1,"released":-2147483649})", "is wrong: \"released\" is too small"},
      {R"({"value":1,"name":1})", "is wrong: \"name\" is not a string"},
      {R"({"value":1,"kind":"music"})", "has an unknown kind \"music\""},
      {"{\"value\":1,\"name\":\"\xff\"}", "is not JSON at byte"},
      {R"({"operator":0,"seconds":"1"})", "is wrong: \"seconds\" is not a number"},
      {R"({"operator":0,"seconds":1e999})", "has a number that is too large"},
      {R"({"operator":0,"can_recompute":1})", "is wrong: \"can_recompute\" is not true or false"},
      {R"({"operator":0,"reads":0})", "is wrong: \"reads\" is not an array"},
      {R"({"operator":0,"reads":["0"]})", "is wrong: \"reads\" is not an integer"},
      {R"({"operator":0,"reads":[[0]]})", "is nested too deeply"},
      {R"({"operator":0,"reads":{"0":0}})", "is nested too deeply"},
      {R"({"operator":0,"reads":[4294967296]})", "is wrong: \"reads\" is too large"},
      {std::string(1 << 20, '['), "is nested too deeply"},
  };
  for (const auto& [line, message] : cases) {
    expect_error_in_line(3, line, message);
  }
}

TEST(TraceFormatTest, TextOfAnInvalidTraceIsAnError) {
  std::vector<std::string> lines = valid_lines();
  lines[3] = R"({"operator":0,"reads":[0],"results":[7]})";
  expect_error(joined(lines), "trace: operator 0 makes a value that does not exist");
}

TEST(TraceFormatTest, MutatedTextIsReadAsAValidTraceOrIsAnError) {
  std::mt19937_64 random(7);
  const std::string alphabet =
      "{}[]\",:0123456789-+.eE\n\\ \xff"
      "nullabc";
  int valid = 0;
  int errors = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = planner::to_text(random_trace(i % 20, [] {
      RandomTraceOptions options;
      options.forward_operators = 4;
      return options;
    }()));
    for (std::uint64_t mutations = 1 + random() % 3; mutations > 0; --mutations) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
      }
    }
    try {
      const Trace trace = planner::trace_from_text(text);
      ASSERT_NO_THROW(trace.validate());
      expect_equal(trace, planner::trace_from_text(planner::to_text(trace)));
      ++valid;
    } catch (const std::invalid_argument&) {
      ++errors;
    }
  }
  EXPECT_GT(valid, 100);
  EXPECT_GT(errors, 1000);
}

TEST(PlanFormatTest, PlansReadBackEqual) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Trace trace = random_trace(seed);
    Plan plan = random_plan(trace, seed);
    plan.choices[seed % plan.choices.size()].store = static_cast<std::int8_t>(seed);
    EXPECT_EQ(planner::plan_from_text(planner::to_text(plan), trace), plan);
  }
}

TEST(PlanFormatTest, TheTextOfAPlanIsTheOneThatIsDocumented) {
  const Trace trace = planner::trace_from_text(joined(valid_lines()));
  Plan plan(trace);
  plan.choices[1] = planner::Choice::put(3);
  EXPECT_EQ(planner::to_text(plan),
            "{\"format\":\"reprise-plan\",\"version\":1,\"values\":2}\n"
            "{\"value\":1,\"retained_from\":0,\"store\":3}\n");
}

TEST(PlanFormatTest, MalformedPlansAreErrors) {
  const Trace trace = planner::trace_from_text(joined(valid_lines()));
  const std::string header = R"({"format":"reprise-plan","version":1,"values":2})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"format":"reprise-plan","version":1,"values":3})", "line 1 is not values 2"},
      {R"({"format":"reprise-plan","version":1})", "line 1 is not values 2"},
      {R"({"format":"reprise-plan","version":1,"values":9000000000000000000})",
       "line 1 is not values 2"},
      {kHeader, "line 1 is not the header of a reprise-plan"},
      {header + "\n{\"value\":2}", "line 2 has a value that does not exist"},
      {header + "\n{}", "line 2 has a value that does not exist"},
      {header + "\n{\"value\":1}\n{\"value\":1}", "line 3 has a value that does not exist"},
      {header + "\n{\"value\":1,\"retained_from\":256}", "line 2 is wrong: \"retained_from\""},
      {header + "\n{\"value\":1,\"retained_from\":-1}", "line 2 is wrong: \"retained_from\""},
      {header + "\n{\"value\":1,\"store\":128}", "line 2 is wrong: \"store\" is too large"},
      {header + "\n{\"value\":1,\"store\":-2}", "line 2 has a store that does not exist"},
      {header + "\n{\"value\":1,\"shelf\":1}", "line 2 has an unknown member \"shelf\""},
  };
  for (const auto& [text, message] : cases) {
    try {
      planner::plan_from_text(text, trace);
      ADD_FAILURE() << "no error: " << text;
    } catch (const std::invalid_argument& error) {
      EXPECT_THAT(error.what(), HasSubstr(message)) << text;
    }
  }
}

TEST(TraceFormatTest, FilesReadBackEqual) {
  const std::string path = ::testing::TempDir() + "reprise_trace_format_test.jsonl";
  const Trace trace = random_trace(3);
  planner::write_trace(trace, path);
  expect_equal(trace, planner::read_trace(path));
  const Plan plan = random_plan(trace, 3);
  planner::write_plan(plan, path);
  EXPECT_EQ(planner::read_plan(path, trace), plan);
}

TEST(TraceFormatTest, FilesThatCannotBeOpenedAreErrors) {
  const std::string directory = ::testing::TempDir();
  for (const std::string& path : {directory + "no/such/file", directory}) {
    EXPECT_THROW(planner::read_trace(path), std::runtime_error) << path;
    EXPECT_THROW(planner::write_trace(Trace{}, path), std::runtime_error) << path;
  }
}

}  // namespace
}  // namespace reprise::testing::trace_format_test
