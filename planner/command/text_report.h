// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Findings for people, on a terminal.
#ifndef REPRISE_PLANNER_COMMAND_TEXT_REPORT_H_
#define REPRISE_PLANNER_COMMAND_TEXT_REPORT_H_

#include <ostream>

#include "reprise/planner/command/arguments.h"
#include "reprise/planner/command/findings.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

// The frontier or the plan, and the explanation that `arguments` ask for.
void print_report(const Findings& findings, const planner::Simulator& simulator,
                  const Arguments& arguments, std::ostream& out);

// Why there is no plan for the budget, and what helps.
void print_impossible(const Findings& findings, const planner::Simulator& simulator,
                      std::ostream& out);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_TEXT_REPORT_H_
