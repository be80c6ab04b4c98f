// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/plot.h"

#include <sstream>
#include <stdexcept>

#include "reprise/planner/command/frontier_picture.h"
#include "reprise/planner/command/gnuplot.h"
#include "reprise/planner/command/memory_picture.h"
#include "reprise/planner/command/values_picture.h"

namespace reprise::planner_internal {

namespace {

std::string whose(const Findings& findings) {
  if (findings.is_followed) {
    return " that the budget follows";
  }
  return findings.plan ? "" : " of the knee";
}

}  // namespace

void write_plot(const Findings& findings, const planner::Simulator& simulator,
                const std::string& file) {
  const planner::Trace& trace = simulator.trace();
  if (trace.backward_begin == static_cast<planner::OperatorId>(trace.operators.size())) {
    throw std::runtime_error("--plot: the trace has no backward");
  }
  std::ostringstream script;
  script << "set terminal "
         << (file.ends_with(".svg") ? "svg size 1000,1350 dynamic font 'sans-serif,13'"
                                    : "pngcairo size 1200,1620 font 'Sans,12'")
         << " background '#ffffff' noenhanced\nset output " << quoted(file)
         << "\nset multiplot layout 3,1\nset border 3 lc rgb '" << kDarkGrey
         << "'\nset tics nomirror out\nset grid ytics lt 1 lw 1 lc rgb '" << kLightGrey
         << "'\nset lmargin 11\nset rmargin 4\n"
         << frontier_picture(findings)
         << memory_picture(simulator, *findings.subject(), findings.budget_bytes,
                           "Memory over the step under the plan" + whose(findings))
         << values_picture(simulator, *findings.subject()) << "unset multiplot\nset output\n";
  run_gnuplot(script.str());
}

}  // namespace reprise::planner_internal
