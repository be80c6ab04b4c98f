// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "reprise/engine/debug_mode.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/stores.h"
#include "reprise/planner/memory_timeline.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_report_test {
namespace {

using planner::MemoryClass;
using planner::MemoryMoment;
using planner::MemoryTimeline;
using planner::Simulator;
using planner::StepReport;
using ::testing::HasSubstr;

class BudgetReportTest : public BudgetedSteps {
 protected:
  static std::string file() { return ::testing::TempDir() + "reprise_budget_report_test.report"; }

  static StepReport written(const MemoryBudget& budget) {
    budget.write_report(file());
    return planner::read_report(file());
  }

  static MemoryTimeline timeline_of(const StepReport& report) {
    return planner::memory_timeline(Simulator(report.trace, report.stores), report.plan);
  }

  static std::int64_t bytes_of(const MemoryMoment& moment, MemoryClass memory_class) {
    return moment.bytes[static_cast<std::size_t>(memory_class)];
  }

  // In each test, since the fixture looks for tensors that a test has left.
  struct Program {
    const Tensors weights = make_weights(8);
    const at::Tensor x = torch::randn({512, kWidth});

    Outcome step(MemoryBudget* budget) const {
      Outcome outcome =
          BudgetedSteps::step(weights, budget, [&](const Tensors& w) { return layers(w, x); });
      outcome.gradients.clear();
      return outcome;
    }
    // Returns a budget of that part of the plain step's memory.
    std::int64_t part(double part) const { return budget_bytes(weights, part, step(nullptr)); }
  };
};

TEST_F(BudgetReportTest, ClassesAddUpToThePredictedPeak) {
  const Program program;
  const Outcome plain = program.step(nullptr);
  const std::int64_t limit = program.part(0.5);
  MemoryBudget budget({.peak_bytes = limit});
  for (int i = 0; i < 4; ++i) {
    program.step(&budget);
  }
  const StepReport report = written(budget);
  EXPECT_EQ(report.budget_bytes, limit);
  EXPECT_EQ(report.measured_peak_bytes, budget.last_step()->peak_bytes);
  const MemoryTimeline timeline = timeline_of(report);
  const MemoryMoment& peak = timeline.moments.at(timeline.peak);
  EXPECT_EQ(peak.total_bytes(), *budget.last_step()->predicted_peak_bytes);
  EXPECT_LE(peak.total_bytes(), limit);
  EXPECT_THAT(budget.report(), HasSubstr("peak: while " + report.trace.operators[peak.op].name));
  EXPECT_GT(bytes_of(peak, MemoryClass::kBeforeStep), 0);
  EXPECT_GT(bytes_of(peak, MemoryClass::kRetained), 0);
  const auto has = [&](MemoryClass memory_class) {
    return std::any_of(timeline.moments.begin(), timeline.moments.end(),
                       [&](const auto& moment) { return bytes_of(moment, memory_class) > 0; });
  };
  EXPECT_TRUE(has(MemoryClass::kGradients));
  EXPECT_TRUE(has(MemoryClass::kRecomputed));
  const MemoryTimeline without =
      planner::memory_timeline(Simulator(report.trace), planner::retain_all(report.trace));
  EXPECT_EQ(without.moments.at(without.peak).total_bytes(), plain.peak_bytes);
}

// More memory is in use before the last step than when the step was recorded.
TEST_F(BudgetReportTest, BeginsWithTheBytesBeforeTheLastStep) {
  const Program program;
  MemoryBudget budget({.peak_bytes = program.part(0.7)});
  for (int i = 0; i < 3; ++i) {
    program.step(&budget);
  }
  const std::int64_t before = written(budget).trace.bytes_before_step();
  const at::Tensor more = torch::zeros({1 << 10});
  program.step(&budget);
  const StepReport report = written(budget);
  EXPECT_EQ(report.trace.bytes_before_step(), before + 4 * more.numel());
  const MemoryTimeline timeline = timeline_of(report);
  EXPECT_EQ(timeline.moments.at(timeline.peak).total_bytes(),
            *budget.last_step()->predicted_peak_bytes);
}

TEST_F(BudgetReportTest, IsThereAfterTheFirstStepAndNotBefore) {
  const Program program;
  MemoryBudget budget({.max_overhead = 0.5});
  EXPECT_FALSE(budget.step_report().has_value());
  try {
    budget.write_report(file());
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no step of the budget is known yet"));
  }
  program.step(&budget);
  const StepReport report = written(budget);
  EXPECT_EQ(report.max_overhead, 0.5);
  EXPECT_FALSE(report.budget_bytes.has_value());
  EXPECT_THROW(budget.write_report(file() + "/no/such/folder"), std::runtime_error);
}

TEST_F(BudgetReportTest, HasTheStoresOfThePlan) {
  const Program program;
  MemoryBudget budget(
      {.peak_bytes = program.part(0.4), .stores = {stores::packed({.min_bytes = 1})}});
  for (int i = 0; i < 4; ++i) {
    program.step(&budget);
  }
  const StepReport report = written(budget);
  EXPECT_EQ(report.stores.size(), 1U);
  EXPECT_FALSE(timeline_of(report).moments.empty());
}

TEST_F(BudgetReportTest, HasStacksInDebugModeAlone) {
  const Program program;
  const auto stacks_of = [&](bool is_debugged) {
    const DebugModeGuard debug(is_debugged);
    MemoryBudget budget({.max_overhead = 0.5});
    program.step(&budget);
    const StepReport report = written(budget);
    const auto& operators = report.trace.operators;
    return std::count_if(operators.begin(), operators.begin() + report.trace.backward_begin,
                         [](const planner::Operator& op) { return !op.stack.empty(); });
  };
  EXPECT_EQ(stacks_of(false), 0);
  EXPECT_GE(stacks_of(true), 8 * 4);
}

}  // namespace
}  // namespace reprise::testing::budget_report_test
