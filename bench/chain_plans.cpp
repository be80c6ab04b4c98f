// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans of chains of equal operators: how many operators they run again, beside the least possible
// number, and how long it takes to find them, as a table in Markdown. A new planner for each plan.
// The time is that for which the thread has had a core.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <vector>

#include "bench/clock.h"
#include "reprise/planner/planner.h"
#include "tests/planner/uniform_chain.h"

namespace reprise::bench {
namespace {

void print_row(int operators, const std::vector<int>& snapshots, int simulations) {
  const planner::Trace trace = testing::uniform_chain(operators, /*workspace_bytes=*/1);
  for (const int each : snapshots) {
    const double start = read_microseconds(CLOCK_THREAD_CPUTIME_ID);
    planner::Planner planner(trace, {.stores = {}, .max_simulations = simulations});
    const auto found = planner.plan(testing::kInputBytes + each + 1);
    const double planning = (read_microseconds(CLOCK_THREAD_CPUTIME_ID) - start) / 1e6;
    const std::int64_t least = testing::revolve_recomputation(operators, each);
    std::cout << "| " << operators << " | " << each << " | ";
    if (found) {
      std::cout << static_cast<std::int64_t>(found->simulation.recompute_seconds);
    } else {
      std::cout << '-';
    }
    std::cout << " | " << least << " | " << std::fixed << std::setprecision(2) << planning << " s |"
              << std::endl;
  }
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Plans of chains of equal operators, as a table in Markdown.");
  std::vector<int> operators = {30, 100, 300, 1'000, 3'000, 10'000, 30'000, 100'000};
  std::vector<int> snapshots = {3, 5, 10, 20, 50, 100};
  int simulations = reprise::planner::PlannerOptions().max_simulations;
  app.add_option("--operators", operators, "of the chains");
  app.add_option("--snapshots", snapshots, "that there is room for, the input included");
  app.add_option("--simulations", simulations, "per budget, about");
  CLI11_PARSE(app, argc, argv);
  std::cout << "| operators | snapshots | recomputed | least possible | planning |\n"
            << "| ---: | ---: | ---: | ---: | ---: |\n";
  for (const int each : operators) {
    reprise::bench::print_row(each, snapshots, simulations);
  }
  return 0;
}
