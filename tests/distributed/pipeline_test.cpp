// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A pipeline in 1F1B order on two ranks, each with a memory budget over its micro-batches in
// flight.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/pipeline_stage.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "tests/distributed/ranks.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/kernel_counter.h"
#include "tests/testing/modules.h"

namespace reprise::pipeline_test {
namespace {

using bench::PipelineStage;
using bench::ScheduleRun;
using bench::StageLinks;
using bench::StageOptions;
using testing::expect_same_bits;
using testing::KernelCounter;
using testing::on_ranks;
using testing::Rank;

constexpr const char* kOperator = "aten::gelu";

// Returns how often a step that follows the budget's plan runs the operator again.
std::size_t planned_reruns(const MemoryBudget& budget) {
  const planner::StepReport report = budget.step_report().value();
  const planner::Simulator simulator(report.trace);
  const std::vector<planner::ScheduledRun> schedule = simulator.schedule(report.plan);
  return static_cast<std::size_t>(
      std::count_if(schedule.begin(), schedule.end(), [&](const planner::ScheduledRun& run) {
        return run.requested_by != planner::kNone &&
               report.trace.operators[run.op].name == kOperator;
      }));
}

// Of the steps of a run.
std::int64_t highest_peak(const ScheduleRun& run) {
  std::int64_t highest = 0;
  for (const BudgetedStep& step : run.steps) {
    highest = std::max(highest, step.peak_bytes);
  }
  return highest;
}

std::int64_t highest_prediction(const ScheduleRun& run) {
  std::int64_t highest = 0;
  for (const BudgetedStep& step : run.steps) {
    highest = std::max(highest, step.predicted_peak_bytes.value_or(0));
  }
  return highest;
}

// The stages' memory is that part of the plain schedule's.
void expect_to_fit(const Rank& rank, const StageOptions& options, double part) {
  SCOPED_TRACE(c10::str("rank ", rank.index, ", ", options.in_flight, " in flight, part ", part));
  constexpr int kIterations = 6;
  const testing::LeakCheck nothing_stays;
  PipelineStage stage(
      options, StageLinks(rank.group, {rank.index, rank.size}, {options.rows, options.width}));
  stage.run(nullptr);
  const ScheduleRun plain = stage.run(nullptr);
  const std::vector<at::Tensor> expected = stage.gradients();
  stage.forget_gradients();
  MemoryBudget budget(
      {.peak_bytes = cpu_memory().current_bytes +
                     static_cast<std::int64_t>(part * static_cast<double>(plain.growth_bytes))});
  for (int i = 0; i < kIterations; ++i) {
    SCOPED_TRACE(i);
    const KernelCounter kernels;
    const ScheduleRun got = stage.run(&budget);
    const std::size_t runs = kernels.count(kOperator);
    expect_same_bits(stage.gradients(), expected);
    EXPECT_LE(got.peak_bytes, *got.steps.front().limit_bytes);
    if (i < kIterations - 1) {
      continue;
    }
    EXPECT_EQ(got.peak_bytes, highest_peak(got));
    EXPECT_EQ(got.peak_bytes, highest_prediction(got));
    const auto forwards = static_cast<std::size_t>(options.layers * options.micro_batches);
    const auto micro_batches = static_cast<std::size_t>(options.micro_batches);
    EXPECT_GT(planned_reruns(budget), 0U);
    EXPECT_EQ(runs, forwards + micro_batches * planned_reruns(budget));
    for (const BudgetedStep& step : got.steps) {
      EXPECT_TRUE(step.is_planned());
      EXPECT_EQ(step.evicted_bytes, 0);
      EXPECT_EQ(step.plans, 0);
      EXPECT_GT(step.predicted_seconds, step.plain_seconds);
    }
  }
}

TEST(PipelineTest, KeepsTheBudgetOfEachRankToTheByte) {
  on_ranks(2, [](Rank& rank) {
    install_cpu_memory_counter();
    for (const double part : {0.5, 0.7}) {
      for (const int more : {0, 2}) {
        StageOptions options;
        options.micro_batches = 8;
        options.in_flight = rank.size - rank.index + more;
        expect_to_fit(rank, options, part);
      }
    }
  });
}

}  // namespace
}  // namespace reprise::pipeline_test
