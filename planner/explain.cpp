// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explain.h"

#include "reprise/planner/explanation/explanation.h"
#include "reprise/planner/explanation/outcome.h"

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

}  // namespace reprise::planner
