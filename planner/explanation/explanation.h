// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What becomes of one value under a plan, and why.
#ifndef REPRISE_PLANNER_EXPLANATION_EXPLANATION_H_
#define REPRISE_PLANNER_EXPLANATION_EXPLANATION_H_

#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/explanation/outcome.h"

namespace reprise::planner_internal {

struct Explanation {
  planner::ValueId value = planner::kNone;
  Outcome::Recomputation recomputation;  // of values of forward
  int times_recomputed = 0;
  std::vector<planner::OperatorId> read_by;    // of backward, the program's own runs
  std::vector<planner::OperatorId> reread_by;  // of forward, that run again; once per run
};

// Returns the operators that `text` names: one by its number, with or without '#', or all with a
// name. Throws std::invalid_argument if there is none.
REPRISE_API std::vector<planner::OperatorId> find_operators(const planner::Trace& trace,
                                                            const std::string& text);

REPRISE_API Explanation explain(const Outcome& outcome, planner::ValueId value);

// In lines: the operator, and each of its results.
REPRISE_API std::string explanation_text(const Outcome& outcome, planner::OperatorId op);

// In a sentence.
REPRISE_API std::string reason(const Outcome& outcome, const Explanation& explanation);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_EXPLANATION_EXPLANATION_H_
