// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The graph of the tensors that a replay gives to the region's code.
//
// Note [Inputs of a replay]: the code gets tensors of its own, but what it computes from them may
// outlive the replay: a layer keeps a term of the loss in a member, and a replay replaces that one.
// Its gradient then has to reach forward's inputs. So each tensor has a node of its own, in front
// of the node of forward's input. That also keeps what the code registers with the tensor, a hook
// or retain_grad(), from forward's node, which has it already. A leaf stays a leaf: during the
// replay its node adds to the gradient of the replay's tensor, and when the code has ended, it
// passes gradients on.
#ifndef REPRISE_ENGINE_FUNCTION_REPLAYED_INPUTS_H_
#define REPRISE_ENGINE_FUNCTION_REPLAYED_INPUTS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <utility>
#include <vector>

#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {

// Of one replay.
class ReplayedInputs {
 public:
  ReplayedInputs() = default;
  ReplayedInputs(const ReplayedInputs&) = delete;
  ReplayedInputs& operator=(const ReplayedInputs&) = delete;

  // Gives `restored`, which has no graph, a node in front of `original`, and that it requires its
  // gradient.
  void add(const at::Tensor& restored, const torch::autograd::Edge& original, bool is_leaf);

  // The code has ended.
  void end();

 private:
  std::vector<std::pair<hooks_internal::NodePtr, torch::autograd::Edge>> leaves_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_FUNCTION_REPLAYED_INPUTS_H_
