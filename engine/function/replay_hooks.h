// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tensors that autograd saves while a function replay runs the region's code.
#ifndef REPRISE_ENGINE_FUNCTION_REPLAY_HOOKS_H_
#define REPRISE_ENGINE_FUNCTION_REPLAY_HOOKS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>

namespace reprise::engine_internal {

class FunctionReplay;

// Whether the tensor itself may leave the replay, as autograd returns it where there is no region.
// One with a graph, or a view of one, would keep the temporary graph.
bool may_be_returned(const at::Tensor& tensor);

// Returns the hooks of one tensor saved in the temporary graph, which report it to `replay` and
// throw the early stop. A backward inside the region reads the tensor there.
std::unique_ptr<torch::autograd::SavedVariableHooks> make_replay_hooks(FunctionReplay& replay);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_REPLAY_HOOKS_H_
