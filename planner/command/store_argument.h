// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The text form of a store: a name and what is known of it, separated by commas.
#ifndef REPRISE_PLANNER_COMMAND_STORE_ARGUMENT_H_
#define REPRISE_PLANNER_COMMAND_STORE_ARGUMENT_H_

#include <string>

#include "reprise/planner/plan.h"

namespace reprise::planner_internal {

// Returns the store that `text` describes: a name, and then any of
//   overlapped      copies run beside the computation
//   rate=25GB/s     in both directions; put=... and get=... set one of them
//   latency=10us    per value and direction
//   smallest=1MiB   smaller values cannot be put there
//   capacity=64GiB  of all values in it
//   retains=0.5     the share of a value's bytes that stays in the step's own memory
// Throws UsageError for any other text.
planner::StoreOption parse_store(const std::string& text);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_STORE_ARGUMENT_H_
