// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What is in memory at the peak of a step, and what would make it smaller.
#ifndef REPRISE_PLANNER_EXPLANATION_PEAK_H_
#define REPRISE_PLANNER_EXPLANATION_PEAK_H_

#include <cstddef>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/planner.h"

namespace reprise::planner_internal {

// "#40 aten::mul, which runs again for #71 mul_backward".
REPRISE_API std::string peak_label(const planner::Trace& trace,
                                   const planner::Simulation& simulation);

// The largest values in memory at the peak; at most `count` of them, and none of 0 bytes.
REPRISE_API std::vector<planner::ValueId> largest_at_peak(const Outcome& outcome,
                                                          std::size_t count);

// "retained", "gradient", ...
REPRISE_API std::string role_at_peak(const Outcome& outcome, planner::ValueId value);

// What would allow for a smaller peak, each in a sentence; what has most to win first.
REPRISE_API std::vector<std::string> advice(const Outcome& outcome,
                                            const planner::Simulation& simulation);

// In lines: the largest values in memory at the peak.
REPRISE_API std::string largest_at_peak_text(const Outcome& outcome);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_EXPLANATION_PEAK_H_
