// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A pipeline in 1F1B order, one stage per rank of a launcher, each within a memory budget over its
// micro-batches in flight: the time of a schedule within the budgets, as a ratio to the same
// schedule with enough memory, in pairs of neighbours in time. Beside it the same ratio of the
// stages alone, whose neighbours are simulated, for the same budgets. Rank 0 prints a table in
// Markdown.
//
//   tests/distributed/start_ranks environment 2 build/release/bench/pipeline_table
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "bench/freed_memory.h"
#include "bench/pipeline_stage.h"
#include "bench/quantile.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/partition/process_group.h"

namespace reprise::bench {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

// Returns the largest of the ranks' numbers, on each rank. Waits for all.
double largest(const Group& group, double number) {
  std::vector<at::Tensor> tensors = {torch::tensor({number}, torch::kFloat64)};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  group->allreduce(tensors, options)->wait();
  return tensors.front().item<double>();
}

// Returns the seconds that the slowest rank takes, from a common start.
double schedule_seconds(const Group& group, PipelineStage& stage, MemoryBudget* budget) {
  largest(group, 0);
  return largest(group, stage.run(budget).seconds);
}

struct Measured {
  std::vector<double> ratios;   // of neighbouring schedules
  double recomputed_part = 0;   // planned time of recomputation, as a part of the plain step's
  std::int64_t peak_bytes = 0;  // measured, of this rank
  std::int64_t predicted_bytes = 0;
};

// Runs schedules until plans have settled, then pairs.
Measured measure(const Group& group, PipelineStage& stage, double part, int pairs) {
  constexpr int kUntilPlanned = 8;
  stage.run(nullptr);
  const ScheduleRun plain = stage.run(nullptr);
  stage.forget_gradients();
  MemoryBudget budget(
      {.peak_bytes = cpu_memory().current_bytes +
                     static_cast<std::int64_t>(part * static_cast<double>(plain.growth_bytes))});
  for (int i = 0; i < kUntilPlanned; ++i) {
    stage.run(&budget);
  }
  Measured measured;
  for (int i = 0; i < pairs; ++i) {
    const double without = schedule_seconds(group, stage, nullptr);
    measured.ratios.push_back(schedule_seconds(group, stage, &budget) / without);
  }
  const ScheduleRun last = stage.run(&budget);
  measured.peak_bytes = last.peak_bytes;
  for (const BudgetedStep& step : last.steps) {
    measured.predicted_bytes =
        std::max(measured.predicted_bytes, step.predicted_peak_bytes.value_or(0));
  }
  const BudgetedStep& step = last.steps.back();
  measured.recomputed_part = (step.predicted_seconds - step.plain_seconds) / step.plain_seconds;
  return measured;
}

void add_row(const Group& group, const StageOptions& options, StagePlace place, double part,
             int pairs) {
  const std::vector<std::int64_t> sizes = {options.rows, options.width};
  PipelineStage stage(options, StageLinks(group, place, sizes));
  const Measured together = measure(group, stage, part, pairs);
  PipelineStage single(options, StageLinks({}, place, sizes));
  const Measured alone = measure(group, single, part, pairs);
  const auto difference =
      static_cast<double>(std::abs(together.peak_bytes - together.predicted_bytes));
  const double unforeseen = largest(group, difference);
  if (place.is_first()) {
    std::cout << std::fixed << std::setprecision(2) << "| " << part << " | "
              << with_quartiles(together.ratios, 3) << " | " << with_quartiles(alone.ratios, 3)
              << " | " << std::setprecision(3) << median(together.ratios) / median(alone.ratios)
              << " | " << std::setprecision(0) << unforeseen << " |" << std::endl;
  }
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("A pipeline within memory budgets, one stage per rank, as a table in Markdown.");
  reprise::bench::StageOptions options{.layers = 8, .width = 512, .rows = 2048, .micro_batches = 8};
  int more = 0;
  int pairs = 11;
  std::vector<double> parts = {0.8, 0.6, 0.5, 0.4};
  app.add_option("--layers", options.layers, "of each stage");
  app.add_option("--width", options.width, "of the layers");
  app.add_option("--rows", options.rows, "of a micro-batch");
  app.add_option("--micro-batches", options.micro_batches, "of a schedule");
  app.add_option("--more", more, "micro-batches in flight, beyond the stages that follow");
  app.add_option("--pairs", pairs, "of schedules");
  app.add_option("--parts", parts, "of the memory that the plain schedule needs");
  CLI11_PARSE(app, argc, argv);
  reprise::bench::keep_freed_memory();
  at::set_num_threads(1);
  reprise::install_cpu_memory_counter();
  const auto group = reprise::init_process_group_from_env();
  const reprise::bench::StagePlace place{group->getRank(), group->getSize()};
  options.in_flight = place.stages - place.number + more;
  if (place.is_first()) {
    std::cout << "| part of the memory | pipeline, ratio (quartiles) | stages alone, ratio "
                 "(quartiles) | pipeline / alone | peak not as predicted, bytes |\n"
              << "| ---: | ---: | ---: | ---: | ---: |\n";
  }
  for (const double part : parts) {
    reprise::bench::add_row(group, options, place, part, pairs);
  }
  return 0;
}
