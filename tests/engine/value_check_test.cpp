// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// DeterminismCheck::kValues does not complain of contents that mean nothing, or are meant to
// change.
#include "reprise/engine/checkpoint_scope.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::value_check_test {
namespace {

class ValueCheckTest : public ConformanceTest {
 protected:
  static void expect_no_complaint(const std::function<at::Tensor(const at::Tensor&)>& code) {
    expect_as_plain(
        [&](const auto& run) {
          const at::Tensor x = at::randn({6, 8}).requires_grad_();
          const at::Tensor y = run(code, x);
          return Tensors{torch::autograd::grad({y.sum()}, {x})[0]};
        },
        {.determinism_check = DeterminismCheck::kValues});
  }
};

TEST_F(ValueCheckTest, IgnoresWhatCtcLossLeavesUnset) {
  torch::nn::CTCLoss loss;
  const at::Tensor targets = torch::tensor({1, 2, 2, 3}, at::kLong).view({2, 2});
  expect_no_complaint([&](const at::Tensor& t) {
    for (int i = 0; i < 16; ++i) {
      at::full({48 + i}, i);  // other contents of free memory
    }
    return t.sin() * loss(t.view({3, 2, 8}).log_softmax(2), targets,
                          torch::tensor({3, 3}, at::kLong), torch::tensor({2, 1}, at::kLong));
  });
}

// rrelu declares a write to its noise, which it draws in training only.
TEST_F(ValueCheckTest, IgnoresNoiseThatRreluLeavesUnset) {
  const CheckpointOptions values{.determinism_check = DeterminismCheck::kValues};
  const CheckpointOptions tape{.replay = ReplayMode::kTape,
                               .determinism_check = DeterminismCheck::kValues};
  const auto rrelu = [](const at::Tensor& t) {
    return at::rrelu(t, 0.1, 0.3, /*training=*/false) * 2;
  };
  for (const auto& inside : {values, tape}) {
    int runs = 0;
    expect_no_complaint([&](const at::Tensor& t) {
      const at::Tensor y = t.sin();
      for (int i = ++runs; i >= 0; --i) {
        at::full({6, 8}, runs + i);  // other contents of free memory
      }
      return checkpoint(inside, rrelu, y).exp();
    });
  }
}

TEST_F(ValueCheckTest, IgnoresStatisticsThatTrainingSavesAndDoesNotUse) {
  at::Tensor mean = at::zeros({8}), variance = at::ones({8});
  expect_no_complaint([&](const at::Tensor& t) {
    return std::get<0>(
        at::_native_batch_norm_legit(t.sin(), {}, {}, mean, variance, true, 0.1, 1e-5));
  });
}

TEST_F(ValueCheckTest, IgnoresStatisticsThatTrainingHasOverwritten) {
  at::Tensor mean, variance;
  expect_as_plain(
      [&](const auto& run) {
        mean = at::zeros({8}), variance = at::ones({8});
        const at::Tensor x = at::randn({6, 8}).requires_grad_();
        const at::Tensor y = run(
            [&](const at::Tensor& t) {
              const auto norm = [&](const at::Tensor& u, bool training) {
                return at::batch_norm(u, {}, {}, mean, variance, training, 0.1, 1e-5, false);
              };
              return (norm(t.sin(), false).exp() * norm(t, true)).sin();
            },
            x);
        return Tensors{torch::autograd::grad({y.sum()}, {x})[0], mean, variance};
      },
      {.determinism_check = DeterminismCheck::kValues});
}

}  // namespace
}  // namespace reprise::testing::value_check_test
