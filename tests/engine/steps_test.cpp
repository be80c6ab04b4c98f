// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Many steps over the same parameters: nothing gathers on them, and what is counted of each step is
// the same.
#include <torch/csrc/autograd/variable.h>

#include <cstdint>

#include "reprise/engine/activation_checkpointing_config.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_report.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::steps_test {
namespace {

std::size_t hooks_on(const at::Tensor& parameter) {
  const auto node = torch::autograd::impl::grad_accumulator(parameter);
  return torch::autograd::impl::hooks(parameter).size() + node->tensor_pre_hooks().size() +
         node->pre_hooks().size() + node->post_hooks().size() +
         (torch::autograd::impl::post_acc_grad_hooks(parameter) != nullptr ? 1 : 0);
}

class ManyStepsTest : public ::testing::Test {
 protected:
  // Times and boundaries as well: they are measured around backward.
  ManyStepsTest() {
    configure_checkpointing({.synchronize_checkpoint_boundary = true, .profile = true});
  }
  ~ManyStepsTest() override { reset_configuration(); }

  at::Tensor block(const at::Tensor& t) { return linear_->forward(norm_->forward(t)).tanh(); }

  // The loss of two regions and a scope on new values.
  at::Tensor forward(ReplayMode replay) {
    const CheckpointOptions options{.name = "block", .replay = replay};
    at::Tensor h = torch::randn({4, 64});
    for (int i = 0; i < 2; ++i) {
      h = checkpoint(
          options, [this](const at::Tensor& t) { return block(t); }, h);
    }
    {
      const CheckpointScope scope({.name = "scope"});
      h = block(h);
    }
    return h.sum();
  }

  torch::nn::LayerNorm norm_{torch::nn::LayerNormOptions({64})};
  torch::nn::Linear linear_{64, 64};
  const Tensors parameters_ = {norm_->weight, norm_->bias, linear_->weight, linear_->bias};
};

TEST_F(ManyStepsTest, LeaveNoHookAndNoTensorOnParameters) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    std::int64_t bytes = 0;
    for (int step = 0; step < 20; ++step) {
      forward(replay).backward();
      if (step == 0) {
        bytes = settled_cpu_bytes();
      }
    }
    EXPECT_TRUE(cpu_bytes_come_to(bytes));
    for (const at::Tensor& parameter : parameters_) {
      EXPECT_EQ(hooks_on(parameter), 0U);
    }
  }
}

// Also of parameters whose gradient nobody asks for.
TEST_F(ManyStepsTest, AreCountedAlikeWhateverGradientsAreAskedFor) {
  for (std::int64_t step = 1; step <= 3; ++step) {
    torch::autograd::grad({forward(ReplayMode::kFunction)}, {linear_->weight});
    const MemoryReport report = memory_report();
    ASSERT_EQ(report.regions.size(), 2U);
    EXPECT_EQ(report.regions[0].name, "block");
    EXPECT_EQ(report.regions[0].runs, 2 * step);
    EXPECT_EQ(report.regions[0].replays, 2 * step);
    EXPECT_EQ(report.regions[1].runs, step);
  }
}

}  // namespace
}  // namespace reprise::testing::steps_test
