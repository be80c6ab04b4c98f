// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/replayed_inputs.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <string>
#include <utility>

namespace reprise::engine_internal {

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

namespace {

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

ReplayedInputs::ReplayedInputs() = default;
ReplayedInputs::~ReplayedInputs() = default;

void ReplayedInputs::add(const at::Tensor& restored, const Edge& original, bool is_leaf) {
  if (is_leaf) {
    restored.set_requires_grad(true);
    auto node = std::make_shared<ReplayedLeaf>(restored);
    torch::autograd::impl::set_grad_accumulator(restored, node);
    leaves_.emplace_back(std::move(node), original);
  } else {
    torch::autograd::impl::set_gradient_edge(
        restored, {std::make_shared<ReplayedResult>(restored, original), 0});
  }
}

void ReplayedInputs::end() {
  for (const auto& [node, original] : leaves_) {
    if (node.use_count() > 1) {
      node->pass_on_to(original);
    }
  }
  leaves_.clear();
}

}  // namespace reprise::engine_internal
