// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Findings as a picture, drawn by gnuplot.
#ifndef REPRISE_PLANNER_COMMAND_PLOT_H_
#define REPRISE_PLANNER_COMMAND_PLOT_H_

#include <string>

#include "reprise/planner/command/findings.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

// Draws the frontier, and the memory and the values over the step under the plan that findings are
// about, into `file`, an .svg or a .png. Throws std::runtime_error if gnuplot fails.
void write_plot(const Findings& findings, const planner::Simulator& simulator,
                const std::string& file);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_PLOT_H_
