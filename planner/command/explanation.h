// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What becomes of one value under a plan, and why.
#ifndef REPRISE_PLANNER_COMMAND_EXPLANATION_H_
#define REPRISE_PLANNER_COMMAND_EXPLANATION_H_

#include <string>
#include <vector>

#include "reprise/planner/command/outcome.h"

namespace reprise::planner_internal {

struct Explanation {
  planner::ValueId value = planner::kNone;
  Outcome::Recomputation recomputation;  // of values of forward
  int times_recomputed = 0;
  std::vector<planner::OperatorId> read_by;    // of backward, the program's own runs
  std::vector<planner::OperatorId> reread_by;  // of forward, that run again; once per run
};

// Returns the operators that `text` names: one by its number, with or without '#', or all with a
// name. Throws UsageError if there is none.
std::vector<planner::OperatorId> find_operators(const planner::Trace& trace,
                                                const std::string& text);

Explanation explain(const Outcome& outcome, planner::ValueId value);

// In a sentence.
std::string reason(const Outcome& outcome, const Explanation& explanation);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_EXPLANATION_H_
