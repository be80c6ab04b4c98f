// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Steps with gradients of gradients within a budget: the operators of the first backward are part
// of forward, and are computed again like any other.
#include <torch/torch.h>

#include <vector>

#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_double_backward_test {
namespace {

class BudgetDoubleBackwardTest : public BudgetedSteps {
 protected:
  static at::Tensor net(const Tensors& weights, at::Tensor h) {
    for (const at::Tensor& weight : weights) {
      h = h.matmul(weight).tanh();
    }
    return h;
  }

  static at::Tensor gradient(const at::Tensor& of, const at::Tensor& in) {
    return torch::autograd::grad({of}, {in}, /*grad_outputs=*/{}, /*retain_graph=*/true,
                                 /*create_graph=*/true)[0];
  }

  static at::Tensor points() {
    return at::linspace(-1, 1, 256 * kWidth).view({256, kWidth}).requires_grad_();
  }

  // u'' + u = 0, as a physics-informed net is trained.
  static at::Tensor physics(const Tensors& weights) {
    const at::Tensor x = points();
    const at::Tensor u = net(weights, x);
    const at::Tensor first = gradient(u.sum(), x);
    const at::Tensor second = gradient(first.sum(), x);
    return (second + u).square().mean();
  }

  // Of a critic that is to have gradients of length 1.
  static at::Tensor penalty(const Tensors& weights) {
    const at::Tensor x = points();
    at::Tensor score = x;
    for (const at::Tensor& weight : weights) {
      score = at::leaky_relu(score.matmul(weight), 0.2);
    }
    return score.mean() + (gradient(score.sum(), x).norm(2, 1) - 1).square().mean();
  }

  EqualTimes equal_times;
};

TEST_F(BudgetDoubleBackwardTest, HoldsHalfOfThePlainStep) {
  const Tensors weights = make_weights(16);
  for (const double part : {0.8, 0.65, 0.5}) {
    SCOPED_TRACE(part);
    expect_to_fit(weights, part, penalty);
    expect_to_fit(weights, part, physics);
  }
}

}  // namespace
}  // namespace reprise::testing::budget_double_backward_test
