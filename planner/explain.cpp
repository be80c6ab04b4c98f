// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explain.h"

#include "reprise/planner/explanation/explanation.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/explanation/peak.h"

namespace reprise::planner {

std::string explain(const Simulator& simulator, const Plan& plan, const std::string& op) {
  const planner_internal::Outcome outcome(simulator, plan);
  std::string text;
  for (const OperatorId each : planner_internal::find_operators(simulator.trace(), op)) {
    text += text.empty() ? "" : "\n";
    text += planner_internal::explanation_text(outcome, each);
  }
  return text;
}

std::string explain_peak(const Simulator& simulator, const Plan& plan) {
  const planner_internal::Outcome outcome(simulator, plan);
  const Simulation simulation = simulator.run(plan);
  std::string text = "Its peak is at " +
                     planner_internal::peak_label(simulator.trace(), simulation) +
                     ".\nLargest in memory then:\n" +
                     planner_internal::largest_at_peak_text(outcome) + "What helps:\n";
  for (const std::string& remedy : planner_internal::advice(outcome, simulation)) {
    text += "  " + remedy + "\n";
  }
  return text;
}

}  // namespace reprise::planner
