// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Backward as it is to be expected before it runs.
//
// Note [Expected backward]: the graph tells which nodes will run, in which order, and the sizes of
// the gradients that they pass to each other; forward tells the values that they read. Not known
// are a node's temporaries and its time. Temporaries are counted in gradients of the node's largest
// size, as measured for the more frequent nodes of LibTorch; those of other nodes count as one. The
// time, which no plan changes, is taken to be nothing. Nodes whose result is a view of their
// gradient pass its memory on.
#ifndef REPRISE_ENGINE_BUDGET_BACKWARD_FORECAST_H_
#define REPRISE_ENGINE_BUDGET_BACKWARD_FORECAST_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/hooks/seam/backward_scope.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Appends the nodes, which run in this order, to a trace of forward. reads: returns the values of
// forward that a node reads.
void append_backward(
    planner::Trace& trace, const std::vector<hooks_internal::BackwardNode>& nodes,
    absl::FunctionRef<std::vector<planner::ValueId>(const hooks_internal::BackwardNode& node)>
        reads);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_BACKWARD_FORECAST_H_
