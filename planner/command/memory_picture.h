// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The bytes in memory over a step.
#ifndef REPRISE_PLANNER_COMMAND_MEMORY_PICTURE_H_
#define REPRISE_PLANNER_COMMAND_MEMORY_PICTURE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/planner/planner.h"

namespace reprise::planner_internal {

// Returns commands of gnuplot that draw the memory under a plan, by what it is, with the operator
// at the peak, the memory without recomputation, and the budget, if there is one. The trace must
// have a backward.
std::string memory_picture(const planner::Simulator& simulator, const planner::Solution& solution,
                           std::optional<std::int64_t> budget_bytes, const std::string& title);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_MEMORY_PICTURE_H_
