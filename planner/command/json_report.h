// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Findings for programs.
#ifndef REPRISE_PLANNER_COMMAND_JSON_REPORT_H_
#define REPRISE_PLANNER_COMMAND_JSON_REPORT_H_

#include <string>

#include "reprise/planner/command/arguments.h"
#include "reprise/planner/command/findings.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

// Returns an object with
//   trace      of the step without recomputation
//   frontier   plans by rising peak, if no one plan was asked for; the knee's has "is_knee"
//   plan       for the budget or the overhead
//   error      if there is no plan for the budget: the smallest peak, what is in memory, what helps
//   explained  the results of the operators that were asked about
// Bytes are whole numbers, times are in seconds. A plan's choices are those of values that backward
// needs; to all others its choice is of no effect.
std::string json_report(const Findings& findings, const planner::Simulator& simulator,
                        const Arguments& arguments);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_JSON_REPORT_H_
