// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What the command line asks for.
#ifndef REPRISE_PLANNER_COMMAND_ARGUMENTS_H_
#define REPRISE_PLANNER_COMMAND_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/planner/command/quantities.h"
#include "reprise/planner/plan.h"

namespace reprise::planner_internal {

struct Arguments {
  std::string trace_file;  // or of a report
  std::optional<Budget> budget;
  std::optional<double> max_overhead;  // a fraction of the step without recomputation
  std::vector<planner::StoreOption> stores;
  std::string explain;  // a number or a name of operators; empty: none
  std::string plot_file;

  // The largest batch that fits into the budget is asked for.
  struct Batches {
    std::int64_t batch;  // of the trace
    std::string other_file;
    std::int64_t other_batch;
  };
  std::optional<Batches> batches;
  bool is_json = false;
  int points = 20;  // of the frontier

  // Of a report that is read, its own plan is shown.
  bool asks_for_no_plan() const { return !budget && !max_overhead && stores.empty(); }
};

// Returns nothing if help was asked for, which it prints. Throws UsageError.
std::optional<Arguments> parse_arguments(int argc, const char* const* argv);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_ARGUMENTS_H_
