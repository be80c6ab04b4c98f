// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Backward as it is to be expected before it runs.
//
// Note [Expected backward]: the graph tells which nodes will run, in which order, and the sizes of
// the gradients that they pass to each other; forward tells the values that they read. Not known
// are a node's temporaries and its time. Temporaries are counted in gradients of the node's largest
// size, as measured for the more frequent nodes of LibTorch; those of other nodes count as one. A
// convolution reorders what it receives and makes. The time, which no plan changes, is taken to be
// nothing. Nodes whose result is a view of their gradient pass its memory on, but for a reshaping
// after a transposition, which copies. Nodes that have run need what they have needed. There is no
// other estimate: of a backward whose graph is not known, each node that reads values counts as one
// of an unknown kind.
#ifndef REPRISE_ENGINE_BUDGET_BACKWARD_FORECAST_H_
#define REPRISE_ENGINE_BUDGET_BACKWARD_FORECAST_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/hooks/seam/backward_scope.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Appends the nodes, which run in this order, to a trace of forward, or of a whole step before
// another backward. reads: returns the values of forward that a node reads.
void append_backward(
    planner::Trace& trace, const std::vector<hooks_internal::BackwardNode>& nodes,
    absl::FunctionRef<std::vector<planner::ValueId>(const hooks_internal::BackwardNode& node)>
        reads);

// Nodes of a forecast have run: they need what they have needed. ended: in the order in which they
// ran, see StepRecorder.
void correct_forecast(planner::Trace& trace, const std::vector<planner::Operator>& ended);

// Called when the rest of a step is planned, with the step as it is to be expected and the most
// bytes that may be in use in it.
using ForecastObserver = void (*)(const planner::Trace& trace, std::int64_t peak_bytes);

// Sets the observer of all steps, or none. For tests.
void set_forecast_observer(ForecastObserver observer);
// Returns it; null if there is none.
ForecastObserver forecast_observer();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BACKWARD_FORECAST_H_
