// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The script of a step as it is saved: operators by their names. Both ask the dispatcher: not to be
// called with a lock held.
#ifndef REPRISE_ENGINE_BUDGET_SAVED_SCRIPT_H_
#define REPRISE_ENGINE_BUDGET_SAVED_SCRIPT_H_

#include <optional>

#include "reprise/engine/budget/step_script.h"
#include "reprise/planner/format/saved_step.h"

namespace reprise::engine_internal {

void save_script(const StepScript& script, planner_internal::SavedStep& step);

// Returns nothing if an operator is not registered in this process. In the step's trace, operators
// that communicate between ranks are not computed again from now on, whatever it said.
std::optional<StepScript> load_script(planner_internal::SavedStep& step);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_SAVED_SCRIPT_H_
