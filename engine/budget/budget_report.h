// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What MemoryBudget::report() and step_report() return.
#ifndef REPRISE_ENGINE_BUDGET_BUDGET_REPORT_H_
#define REPRISE_ENGINE_BUDGET_BUDGET_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/budget/step_limit.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/planner/step_report.h"

namespace reprise::engine_internal {

// limit: of the step. step: null if none has ended. known: with the step's plan and trace; null if
// no step is known. Plans for a larger budget, to tell what that would gain.
std::string describe_budget(const BudgetAim& aim, const StepLimit& limit, const BudgetedStep* step,
                            KnownStep* known);

// step: null if none has ended. bytes_before: that were in use when it began. Returns nothing if no
// plan for the known step is valid.
std::optional<planner::StepReport> report_of(const BudgetAim& aim, const BudgetedStep* step,
                                             std::int64_t bytes_before, const KnownStep& known);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BUDGET_REPORT_H_
