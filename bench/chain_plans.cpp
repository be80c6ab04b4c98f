// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans of chains of equal operators: how many operators they run again, beside the least possible
// number, and how long it takes to find them, as a table in Markdown. A new planner for each plan.
// The time is that for which the thread has had a core. With --copy, plans may put values into a
// store.
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

// copy_seconds: to the store and back.
std::vector<planner::StoreOption> stores_of(double copy_seconds) {
  planner::StoreOption store;
  store.name = "disk";
  store.latency_seconds = copy_seconds / 2;
  return copy_seconds > 0 ? std::vector{store} : std::vector<planner::StoreOption>();
}

void print_row(int operators, const std::vector<int>& snapshots,
               const planner::PlannerOptions& options) {
  const planner::Trace trace = testing::uniform_chain(operators, /*workspace_bytes=*/1);
  for (const int each : snapshots) {
    const double start = read_microseconds(CLOCK_THREAD_CPUTIME_ID);
    planner::Planner planner(trace, options);
    const auto found = planner.plan(testing::kInputBytes + each + 1);
    const double planning = (read_microseconds(CLOCK_THREAD_CPUTIME_ID) - start) / 1e6;
    const std::int64_t least = testing::revolve_recomputation(operators, each);
    std::cout << "| " << operators << " | " << each << " | ";
    if (found) {
      std::cout << static_cast<std::int64_t>(found->simulation.recompute_seconds);
      if (!options.stores.empty()) {
        std::cout << " and " << found->simulation.stored_bytes[0] << " stored";
      }
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
  double copy = 0;
  app.add_option("--copy", copy,
                 "operators that take as long as to put a value into a store and to get it back");
  CLI11_PARSE(app, argc, argv);
  std::cout << "| operators | snapshots | recomputed | least possible | planning |\n"
            << "| ---: | ---: | ---: | ---: | ---: |\n";
  for (const int each : operators) {
    reprise::bench::print_row(
        each, snapshots,
        {.stores = reprise::bench::stores_of(copy), .max_simulations = simulations});
  }
  return 0;
}
