// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The extra time of plans against their peaks.
#ifndef REPRISE_PLANNER_COMMAND_FRONTIER_PICTURE_H_
#define REPRISE_PLANNER_COMMAND_FRONTIER_PICTURE_H_

#include <string>

#include "reprise/planner/command/findings.h"

namespace reprise::planner_internal {

// Returns commands of gnuplot that draw the plans of the frontier and the certified bound, and mark
// the plan that findings are about.
std::string frontier_picture(const Findings& findings);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_FRONTIER_PICTURE_H_
