// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// When the largest values of a step are in memory.
#ifndef REPRISE_PLANNER_COMMAND_VALUES_PICTURE_H_
#define REPRISE_PLANNER_COMMAND_VALUES_PICTURE_H_

#include <string>

#include "reprise/planner/planner.h"

namespace reprise::planner_internal {

// Returns commands of gnuplot that draw a bar for each of the values of the step that take most
// bytes for most time, from when to when each is in memory, and say what is left out.
std::string values_picture(const planner::Simulator& simulator, const planner::Solution& solution);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_VALUES_PICTURE_H_
