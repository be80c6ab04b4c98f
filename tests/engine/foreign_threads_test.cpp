// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Threads that a region's code starts, and that write to its tensors.
#include <thread>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::foreign_threads_test {
namespace {

void on_another_thread(const std::function<void()>& code) {
  std::thread([&] {
    const at::NoGradGuard no_grad;
    code();
  }).join();
}

class ForeignThreadsTest : public ConformanceTest {};

// One row is beyond the bytes that a tape samples.
TEST_F(ForeignThreadsTest, FillARowOfAResult) {
  expect_as_plain([](const auto& run) {
    const at::Tensor x = at::randn({64, 32}).requires_grad_();
    const at::Tensor y = run(
        [](const at::Tensor& t) {
          const at::Tensor h = t.detach().sigmoid();
          on_another_thread([&] { h.select(0, 20).fill_(0.25); });
          return (t * h).sin();
        },
        x);
    return Tensors{torch::autograd::grad({y.sum()}, {x}, {}, true)[0],
                   torch::autograd::grad({y.sum()}, {x})[0]};
  });
}

// A custom Function counts a version of its own: nothing is retained for it.
struct Doubled : torch::autograd::Function<Doubled> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    x.mul_(2);
    x.abs();
    context->mark_dirty({x});
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

TEST_F(ForeignThreadsTest, AreNotMistakenForAFunctionThatMarksItsArgumentAsDirty) {
  expect_as_plain([](const auto& run) {
    const at::Tensor x = at::randn({64, 32}).requires_grad_();
    const at::Tensor y =
        run([](const at::Tensor& t) { return (Doubled::apply(t + 1) * t).sin(); }, x);
    return Tensors{torch::autograd::grad({y.sum()}, {x})[0]};
  });
}

}  // namespace
}  // namespace reprise::testing::foreign_threads_test
