// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Threads that a region's code starts, and that write to its tensors; those that have its state run
// operators of the region.
#include <ATen/ThreadLocalState.h>

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

// As at::launch() and the device threads of a backward do.
void on_a_thread_with_this_state(const std::function<void()>& code) {
  const at::ThreadLocalState state;
  std::thread([&] {
    const at::ThreadLocalStateGuard inherited(state);
    code();
  }).join();
}

class InheritingThreadsTest : public ConformanceTest,
                              public ::testing::WithParamInterface<CheckpointOptions> {};

// An operator of such a thread is the region's: a write to outside memory happens once, and a
// policy is asked.
TEST_P(InheritingThreadsTest, RunOperatorsOfTheRegion) {
  expect_as_plain(
      [](const auto& run) {
        const at::Tensor x = at::randn({4, 6}).requires_grad_();
        const at::Tensor weight = at::randn({6, 6}).requires_grad_();
        const at::Tensor count = at::zeros({4});
        const at::Tensor y = run(
            [&weight, &count](const at::Tensor& t) {
              const at::Tensor h = t.detach().sigmoid();
              at::Tensor other;
              on_a_thread_with_this_state([&] {
                count.select(0, 1).add_(1);
                h.select(0, 2).fill_(0.25);
                other = torch::dropout(t.mm(weight).sin(), 0.5, true).exp();
              });
              return (t * other * h).tanh() * h.exp();
            },
            x);
        Tensors found = torch::autograd::grad({y.sum()}, {x, weight}, {}, true);
        found.push_back(torch::autograd::grad({y.sum()}, {x})[0]);
        found.push_back(count);
        return found;
      },
      GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Options, InheritingThreadsTest,
    ::testing::Values(CheckpointOptions{}, CheckpointOptions{.policy = policies::save_matmuls()},
                      CheckpointOptions{.policy = policies::save_nothing()},
                      CheckpointOptions{.policy = policies::save_everything(),
                                        .determinism_check = DeterminismCheck::kValues},
                      CheckpointOptions{.policy = policies::save_matmuls(),
                                        .determinism_check = DeterminismCheck::kNone}));

}  // namespace
}  // namespace reprise::testing::foreign_threads_test
