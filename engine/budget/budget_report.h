// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The text that MemoryBudget::report() returns.
#ifndef REPRISE_ENGINE_BUDGET_BUDGET_REPORT_H_
#define REPRISE_ENGINE_BUDGET_BUDGET_REPORT_H_

#include <string>

#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/memory_budget.h"

namespace reprise::engine_internal {

// step: null if none has ended. known: with the step's plan and trace; null if no step is known.
// Plans for a larger budget, to tell what that would gain.
std::string describe_budget(const BudgetAim& aim, const BudgetedStep* step, KnownStep* known);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BUDGET_REPORT_H_
