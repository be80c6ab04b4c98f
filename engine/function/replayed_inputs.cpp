// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/replayed_inputs.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <utility>

namespace reprise::engine_internal {

namespace {

using torch::autograd::Edge;
using torch::autograd::variable_list;

class ReplayedLeaf final : public torch::autograd::AccumulateGrad {
 public:
  using AccumulateGrad::AccumulateGrad;

  variable_list apply(variable_list&& gradients) override {
    return next_edges_.empty() ? AccumulateGrad::apply(std::move(gradients)) : std::move(gradients);
  }

  // add_next_edge() refuses nodes that others lead to; both ends have the topological number 0.
  void pass_on_to(const Edge& original) { next_edges_.push_back(original); }
};

// Looks like the node in front of which it stands: code may ask for its name, and what the region
// makes has later numbers.
class ReplayedResult final : public torch::autograd::TraceableFunction {
 public:
  ReplayedResult(const at::Tensor& restored, const Edge& original)
      : TraceableFunction(original.function->sequence_nr(), {original}) {
    add_input_metadata(restored);
  }

  variable_list apply(variable_list&& gradients) override { return std::move(gradients); }
  std::string name() const override { return next_edge(0).function->name(); }
};

}  // namespace

void ReplayedInputs::add(const at::Tensor& restored, const Edge& original, bool is_leaf) {
  if (is_leaf) {
    restored.set_requires_grad(true);
    hooks_internal::NodePtr node = hooks_internal::make_node<ReplayedLeaf>(restored);
    torch::autograd::impl::set_grad_accumulator(restored, hooks_internal::weak_node(node));
    leaves_.emplace_back(std::move(node), original);
  } else {
    torch::autograd::impl::set_gradient_edge(
        restored, {hooks_internal::make_node<ReplayedResult>(restored, original), 0});
  }
}

void ReplayedInputs::end() {
  for (const auto& [node, original] : leaves_) {
    if (node.use_count() > 1) {
      static_cast<ReplayedLeaf&>(*node).pass_on_to(original);
    }
  }
  leaves_.clear();
}

}  // namespace reprise::engine_internal
