// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Networks with batch-norm: outputs, gradients and buffers as without checkpointing.
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::batch_norm_test {
namespace {

// A residual block, as in ResNet.
struct BlockImpl : torch::nn::Module {
  BlockImpl(std::int64_t channels, std::optional<double> momentum)
      : first(register_module("first", convolution(channels))),
        first_norm(register_module("first_norm", norm(channels, momentum))),
        second(register_module("second", convolution(channels))),
        second_norm(register_module("second_norm", norm(channels, momentum))) {}

  static torch::nn::Conv2d convolution(std::int64_t channels) {
    return torch::nn::Conv2d(
        torch::nn::Conv2dOptions(channels, channels, 3).padding(1).bias(false));
  }
  static torch::nn::BatchNorm2d norm(std::int64_t channels, std::optional<double> momentum) {
    return torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels).momentum(momentum));
  }

  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = first_norm(first(x));
    torch::relu_(y);
    y = second_norm(second(y));
    y.add_(x);
    return torch::relu_(y);
  }

  torch::nn::Conv2d first;
  torch::nn::BatchNorm2d first_norm;
  torch::nn::Conv2d second;
  torch::nn::BatchNorm2d second_norm;
};
TORCH_MODULE(Block);

// Parameters, their gradients, outputs and buffers after `steps` steps, each two forwards before
// one backward, as in gradient accumulation.
Tensors train(const std::optional<CheckpointOptions>& options, std::optional<double> momentum,
              bool shared_block, int steps) {
  torch::manual_seed(11);
  std::vector<Block> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(shared_block && i > 0 ? blocks[0] : Block(4, momentum));
  }
  Tensors seen;
  for (int step = 0; step < steps; ++step) {
    std::vector<at::Tensor> losses;
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      at::Tensor h = torch::randn({2, 4, 6, 6});
      for (Block& block : blocks) {
        h = options ? checkpoint(*options, block, h) : block->forward(h);
      }
      seen.push_back(h.detach());
      losses.push_back(h.square().mean());
    }
    (losses[0] + losses[1]).backward();
    for (const Block& block : blocks) {
      for (const at::Tensor& parameter : block->parameters()) {
        seen.push_back(parameter.grad().clone());
      }
    }
    const torch::NoGradGuard no_grad;
    for (Block& block : blocks) {
      for (const at::Tensor& parameter : block->parameters()) {
        if (parameter.grad().defined()) {  // a shared block has been here
          parameter.sub_(parameter.grad(), 0.05);
        }
      }
      block->zero_grad();
    }
  }
  for (const Block& block : blocks) {
    for (const at::Tensor& buffer : block->buffers()) {
      seen.push_back(buffer.clone());
    }
  }
  return seen;
}

class BatchNormTest : public ConformanceTest {};

TEST_F(BatchNormTest, FiveStepsAreAsWithoutRegions) {
  expect_same_bits(train(CheckpointOptions{}, 0.1, false, 5), train(std::nullopt, 0.1, false, 5));
}

TEST_F(BatchNormTest, UpdateStatisticsOnceWithoutEarlyStop) {
  expect_same_bits(train(CheckpointOptions{.early_stop = false}, 0.1, false, 5),
                   train(std::nullopt, 0.1, false, 5));
}

TEST_F(BatchNormTest, UpdateStatisticsOnceWithEachCheck) {
  for (const CheckpointOptions& options :
       {CheckpointOptions{.determinism_check = DeterminismCheck::kNone},
        CheckpointOptions{.determinism_check = DeterminismCheck::kValues},
        CheckpointOptions{.watch_operators = false}}) {
    expect_same_bits(train(options, 0.1, false, 2), train(std::nullopt, 0.1, false, 2));
  }
}

TEST_F(BatchNormTest, UpdateStatisticsOnceWithCumulativeAverages) {
  expect_same_bits(train(CheckpointOptions{}, std::nullopt, false, 5),
                   train(std::nullopt, std::nullopt, false, 5));
}

TEST_F(BatchNormTest, UpdateStatisticsOnceIfABlockIsUsedRepeatedly) {
  expect_same_bits(train(CheckpointOptions{}, 0.1, true, 5), train(std::nullopt, 0.1, true, 5));
}

TEST_F(BatchNormTest, UpdateStatisticsOnceInNestedRegions) {
  torch::manual_seed(0);
  Block block(4, 0.1);
  const at::Tensor x = leaf({2, 4, 6, 6});
  const auto outer = [&](const at::Tensor& t) { return checkpoint(block, t.sin()).exp(); };
  const at::Tensor y = checkpoint(outer, x);
  std::vector<at::Tensor> after_forward;
  for (const at::Tensor& buffer : block->buffers()) {
    after_forward.push_back(buffer.clone());
  }
  y.sum().backward();
  expect_same_bits(block->buffers(), after_forward);
  EXPECT_EQ(block->first_norm->num_batches_tracked.item<std::int64_t>(), 1);
}

// Later forwards update statistics that earlier ones have saved and do not use.
TEST_F(BatchNormTest, AcceptMovedStatisticsInNestedRegions) {
  for (const ReplayMode inner : {ReplayMode::kFunction, ReplayMode::kTape}) {
    for (const ReplayMode outer : {ReplayMode::kFunction, ReplayMode::kTape}) {
      torch::manual_seed(0);
      Block block(4, 0.1);
      const auto forward = [&](const at::Tensor& x) {
        const CheckpointOptions within{.replay = inner,
                                       .determinism_check = DeterminismCheck::kValues};
        const CheckpointOptions around{.replay = outer,
                                       .determinism_check = DeterminismCheck::kValues};
        const auto code = [&, within](const at::Tensor& t) {
          return checkpoint(within, block, t.sin()).exp();
        };
        return checkpoint(around, code, x);
      };
      const at::Tensor x = leaf({2, 4, 6, 6});
      const at::Tensor first = forward(x);
      const at::Tensor second = forward(x * 2);
      EXPECT_NO_THROW((first.sum() + second.sum()).backward());
    }
  }
}

TEST_F(BatchNormTest, InstanceNormStatisticsAreUpdatedOnce) {
  torch::nn::InstanceNorm2d norm(
      torch::nn::InstanceNorm2dOptions(4).track_running_stats(true).affine(true));
  const at::Tensor x = leaf({2, 4, 6, 6});
  const at::Tensor y = checkpoint([&](const at::Tensor& t) { return norm(t.sin()).exp(); }, x);
  std::vector<at::Tensor> after_forward;
  for (const at::Tensor& buffer : norm->buffers()) {
    after_forward.push_back(buffer.clone());
  }
  y.sum().backward();
  expect_same_bits(norm->buffers(), after_forward);
}

TEST_F(BatchNormTest, OnlyReadStatisticsInEvaluation) {
  expect_as_plain([this](auto run) -> Tensors {
    Block block(4, 0.1);
    block->eval();
    const at::Tensor x = leaf({2, 4, 6, 6});
    return gradients(run(block, x), {x});
  });
}

// Which no version counter tells of.
TEST_F(BatchNormTest, UseForwardsStatisticsInEvaluation) {
  expect_as_plain([this](auto run) -> Tensors {
    const at::Tensor mean = at::zeros({4});
    const at::Tensor variance = at::ones({4});
    const auto norm = [&](bool is_training) {
      return [=](const at::Tensor& t) {
        return at::batch_norm(t.sin(), {}, {}, mean, variance, is_training, 0.1, 1e-5, false).exp();
      };
    };
    const at::Tensor x = leaf({2, 4, 6, 6});
    const at::Tensor y = run(norm(false), x);
    const at::Tensor z = run(norm(true), x * 3 + 1);
    return gradients(y.sin() + z, {x});
  });
}

}  // namespace
}  // namespace reprise::testing::batch_norm_test
