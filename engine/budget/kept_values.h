// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The values of a step that no plan drops.
#ifndef REPRISE_ENGINE_BUDGET_KEPT_VALUES_H_
#define REPRISE_ENGINE_BUDGET_KEPT_VALUES_H_

#include <string>

#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Returns lines for a report: the bytes of forward's values that the plan has to retain because
// their operators run once, and of those that the program itself holds until backward, by operator
// and reason; empty if there are none.
std::string describe_kept(const planner::Trace& trace, const planner::Plan& plan);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_KEPT_VALUES_H_
