// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/step_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/planner/simulator.h"
#include "reprise/planner/trace_format.h"
#include "tests/planner/format_lines.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::step_report_test {
namespace {

namespace fs = std::filesystem;

using planner::Choice;
using planner::StepReport;

StepReport random_report(std::uint64_t seed) {
  StepReport report;
  report.trace = random_trace(seed);
  report.plan = random_plan(report.trace, seed);
  report.trace.operators[0].stack = "model.py, line 3\n  \"h\" = mm(x)\n";
  report.stores = {{.name = "host",
                    .put_seconds_per_byte = 1e-9 / 3,
                    .get_seconds_per_byte = 2e-9,
                    .latency_seconds = 1e-5,
                    .is_overlapped = true,
                    .smallest_bytes = 16,
                    .capacity_bytes = std::int64_t{1} << 40},
                   {.name = "packed",
                    .retained_fraction = 0.1,
                    .retained_fractions = std::vector<float>(report.trace.values.size(), 0.1F)}};
  report.budget_bytes = 1 << 20;
  report.measured_peak_bytes = 12345;
  return report;
}

constexpr const char* kLines[] = {
    R"({"format":"reprise-report","version":1,"budget_bytes":20000})",
    R"({"store":0,"name":"host"})",
    R"({"format":"reprise-trace","version":1,"backward_begin":1})",
    R"({"value":0,"bytes":4096,"kind":"input","name":"x"})",
    R"({"value":1,"bytes":8192,"released":0})",
    R"({"operator":0,"name":"relu","seconds":1e-05,"reads":[0],"results":[1],"stack":"f.cpp:3"})",
    R"({"operator":1,"name":"b","seconds":2.5,"can_recompute":false,"reads":[1]})",
    R"({"format":"reprise-plan","version":1,"values":2})",
    R"({"value":1,"retained_from":0,"store":0})",
};

std::vector<std::string> valid_lines() { return {std::begin(kLines), std::end(kLines)}; }

void expect_error(const std::string& text, const std::string& message) {
  expect_format_error(&planner::report_from_text, text, message);
}

TEST(StepReportTest, TheTextIsTheOneThatIsDocumented) {
  const StepReport report = planner::report_from_text(joined(valid_lines()));
  EXPECT_EQ(report.budget_bytes, 20000);
  EXPECT_FALSE(report.max_overhead.has_value());
  EXPECT_EQ(report.plan.choices[1], Choice::put(0));
  EXPECT_EQ(report.trace.operators[0].stack, "f.cpp:3");
  EXPECT_EQ(planner::to_text(report), joined(valid_lines()));
}

TEST(StepReportTest, ReportsReadBackEqual) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const StepReport report = random_report(seed);
    const StepReport same = planner::report_from_text(planner::to_text(report));
    EXPECT_EQ(planner::to_text(same.trace), planner::to_text(report.trace));
    EXPECT_EQ(same.plan, report.plan);
    EXPECT_EQ(same.budget_bytes, report.budget_bytes);
    EXPECT_EQ(same.measured_peak_bytes, report.measured_peak_bytes);
    ASSERT_EQ(same.stores.size(), report.stores.size());
    EXPECT_EQ(same.stores[0].put_seconds_per_byte, report.stores[0].put_seconds_per_byte);
    EXPECT_EQ(same.stores[0].capacity_bytes, report.stores[0].capacity_bytes);
    EXPECT_EQ(same.stores[1].retained_fractions, report.stores[1].retained_fractions);
    EXPECT_EQ(planner::to_text(same), planner::to_text(report));
  }
}

TEST(StepReportTest, ForeignAndBrokenTextIsAnErrorWithItsLine) {
  const auto with_line = [](std::size_t number, const std::string& line) {
    std::vector<std::string> lines = valid_lines();
    lines.at(number - 1) = line;
    return joined(lines);
  };
  expect_error("", "line 1 is not JSON");
  expect_error("<html>", "line 1 is not JSON");
  expect_error(joined({kLines[2], kLines[3]}), "line 1 is not the header of a reprise-report");
  expect_error(with_line(1, R"({"format":"reprise-report","version":2})"), "line 1 has version 2");
  expect_error(with_line(1, R"({"format":"reprise-report","version":1,"colour":1})"),
               "line 1 has an unknown member \"colour\"");
  expect_error(with_line(2, R"({"store":1})"), "line 2 is not store 0");
  expect_error(with_line(2, R"({"store":0,"retained_fractions":["x"]})"),
               "line 2 is wrong: \"retained_fractions\" is not an array of numbers");
  expect_error(with_line(3, R"({"format":"reprise-trace","version":9})"), "line 3 has version 9");
  expect_error(with_line(4, R"({"value":7})"), "line 4 is not value 0");
  expect_error(with_line(8, R"({"format":"reprise-plan","version":1,"values":3})"),
               "line 8 is not values 2");
  expect_error(with_line(9, R"({"value":1,"retained_from":0,"store":1})"), "store 1 of 1");
  std::vector<std::string> cut = valid_lines();
  cut.resize(7);
  expect_error(joined(cut), "line 8 is not JSON");
  expect_error(joined(valid_lines()) + kLines[7], "line 10 has a value that does not exist");
}

TEST(StepReportTest, InvalidReportsAreNeitherReadNorWritten) {
  const std::vector<std::pair<std::string, std::string>> stores = {
      {R"("put_seconds_per_byte":-1)", "has a time that is negative or not finite"},
      {R"("retained_fraction":2)", "has a fraction that is not between 0 and 1"},
      {R"("retained_fractions":[0.5])", "not as many fractions as there are values"},
      {R"("capacity_bytes":-1)", "has a negative size"},
      {R"("capacity_bytes":1)", "a store does not take a value"},
  };
  for (const auto& [member, message] : stores) {
    std::vector<std::string> lines = valid_lines();
    lines[1] = R"({"store":0,)" + member + '}';
    expect_error(joined(lines), message);
  }
  std::vector<std::string> lines = valid_lines();
  lines[0] = R"({"format":"reprise-report","version":1,"budget_bytes":-1})";
  expect_error(joined(lines), "a number of bytes is negative");
  StepReport report = random_report(1);
  report.plan.choices.pop_back();
  EXPECT_THROW(planner::to_text(report), std::invalid_argument);
  report = random_report(1);
  report.stores[0].name = "\xff";
  EXPECT_THROW(planner::to_text(report), std::invalid_argument);
}

TEST(StepReportTest, FilesAreReplacedAsAWhole) {
  const fs::path folder = fs::path(::testing::TempDir()) / "reprise_step_report_test";
  fs::create_directories(folder);
  const std::string path = folder / "step.report";
  std::ofstream(path) << "older";
  const std::string link = folder / "link.report";
  fs::remove(link);
  fs::create_symlink("step.report", link);
  planner::write_report(random_report(3), link);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(planner::to_text(planner::read_report(path)), planner::to_text(random_report(3)));
  StepReport invalid = random_report(4);
  invalid.plan.choices.clear();
  EXPECT_THROW(planner::write_report(invalid, path), std::invalid_argument);
  EXPECT_EQ(planner::to_text(planner::read_report(path)), planner::to_text(random_report(3)));
  for (const fs::path& bad : {folder / "no" / "such", folder}) {
    EXPECT_THROW(planner::write_report(random_report(3), bad), std::runtime_error);
    EXPECT_THROW(planner::read_report(bad), std::runtime_error);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);  // no temporary file is left
}

}  // namespace
}  // namespace reprise::testing::step_report_test
