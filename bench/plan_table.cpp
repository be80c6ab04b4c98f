// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What the planner finds for a step of each model of the zoo, recorded by a StepProfileGuard: at
// budgets that are parts of the activation peak, the time of the step over that without
// recomputation, and, in brackets, how much of that a better plan could save at most. With
// --traces, also writes the traces, for tools/plan.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/zoo/stepped_model.h"
#include "bench/zoo/zoo.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/trace_format.h"

namespace reprise::bench {
namespace {

const std::vector<double> kBudgets = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2};

planner::Trace record(const std::string& model, std::int64_t scale) {
  zoo::SteppedModel stepped(model, scale);
  stepped.reset();
  StepProfileGuard profile;
  stepped.model().loss({}).backward();
  return std::move(profile).finish();
}

void print_row(const std::string& model, const planner::Trace& trace) {
  using Clock = std::chrono::steady_clock;
  planner::Planner planner(trace);
  const std::int64_t before = trace.bytes_before_step();
  const std::int64_t peak = planner.simulator().run(planner::retain_all(trace)).peak_bytes - before;
  std::cout << "| " << model << " | " << trace.operators.size() << std::fixed;
  const Clock::time_point start = Clock::now();
  for (const double part : kBudgets) {
    const auto budget = before + static_cast<std::int64_t>(part * static_cast<double>(peak));
    const std::optional<planner::Solution> found = planner.plan(budget);
    std::cout << " | ";
    if (found) {
      const double percent = 100 / trace.seconds();
      std::cout << std::setprecision(2) << percent * (found->simulation.seconds - trace.seconds())
                << " (" << percent * found->gap_seconds() << ")";
    } else {
      std::cout << "-";
    }
  }
  const std::chrono::duration<double> planning = Clock::now() - start;
  const planner::Solution smallest = planner.smallest_peak();
  std::cout << " | "
            << static_cast<double>(smallest.simulation.peak_bytes - before) /
                   static_cast<double>(peak)
            << " | " << std::setprecision(2)
            << planning.count() / static_cast<double>(kBudgets.size()) << " s |" << std::endl;
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Plans for a step of each model of the zoo, as a table in Markdown.");
  std::string only;
  std::string traces;
  std::int64_t scale = 16;
  app.add_option("--only", only, "models whose name contains this");
  app.add_option("--scale", scale, "of the batches");
  app.add_option("--traces", traces, "the folder to write the traces to");
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  std::cout << "| model | operators |";
  for (const double part : reprise::bench::kBudgets) {
    std::cout << ' ' << part << " |";
  }
  std::cout << " smallest peak | planning |\n";
  for (const reprise::zoo::Kind& kind : reprise::zoo::kinds()) {
    if (kind.name.find(only) == std::string::npos) {
      continue;
    }
    const reprise::planner::Trace trace = reprise::bench::record(kind.name, scale);
    if (!traces.empty()) {
      std::filesystem::create_directories(traces);
      reprise::planner::write_trace(trace, traces + "/" + kind.name + ".trace");
    }
    reprise::bench::print_row(kind.name, trace);
  }
  return 0;
}
