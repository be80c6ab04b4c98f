// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plans that the command line asks for.
#ifndef REPRISE_PLANNER_COMMAND_FINDINGS_H_
#define REPRISE_PLANNER_COMMAND_FINDINGS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/planner/command/arguments.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/step_report.h"

namespace reprise::planner_internal {

struct Findings {
  bool is_followed = false;  // the plan is that of a report

  // Of the step without recomputation.
  std::int64_t base_bytes = 0;  // that exist before the step
  std::int64_t peak_bytes = 0;
  double seconds = 0;

  std::vector<planner::Solution> frontier;  // empty if it was not asked for
  std::size_t knee = 0;                     // of the frontier

  std::optional<std::int64_t> budget_bytes;
  std::optional<planner::Solution> plan;      // for the budget or the overhead
  std::optional<planner::Solution> smallest;  // if there is no plan for the budget

  bool is_impossible() const { return smallest.has_value(); }

  // What explanations and pictures are about: the plan that was asked for, or else the knee; null
  // if the budget is impossible.
  const planner::Solution* subject() const;

  // Fractions of the step without recomputation.
  double extra_time(const planner::Solution& solution) const;
  double bound(const planner::Solution& solution) const;  // on the extra time
  double gap(const planner::Solution& solution) const;

  // The share of what the step needs beyond the bytes that exist before it.
  double share(std::int64_t bytes) const;
};

// Of all stores.
std::int64_t stored_bytes(const planner::Solution& solution);

// report: of the planner's step, whose plan is found if the arguments ask for no other; or null.
Findings find_plans(planner::Planner& planner, const Arguments& arguments,
                    const planner::StepReport* report);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_FINDINGS_H_
