// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Residual layers of an LSTM each, over a sequence of vectors.
#include <tuple>

#include "bench/models/model.h"

namespace reprise::bench::lstm {

namespace nn = torch::nn;

constexpr int kSteps = 64;
constexpr int kBatch = 16;
constexpr int kWidth = 128;
constexpr int kLayers = 4;
constexpr double kDropout = 0.1;

struct LstmBlockImpl : nn::Module {
  LstmBlockImpl()
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        lstm(register_module("lstm", nn::LSTM(kWidth, kWidth))) {}

  at::Tensor forward(const at::Tensor& h) {
    return h + torch::dropout(std::get<0>(lstm(norm(h))), kDropout, is_training());
  }

  nn::LayerNorm norm;
  nn::LSTM lstm;
};
TORCH_MODULE(LstmBlock);

struct LstmStackImpl : nn::Module {
  LstmStackImpl() {
    for (int layer = 0; layer < kLayers; ++layer) {
      blocks->push_back(LstmBlock());
    }
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(kWidth, kWidth));
  }

  nn::ModuleList blocks;
  nn::Linear head = nullptr;
};
TORCH_MODULE(LstmStack);

Model make() {
  LstmStack stack;
  const at::Tensor sequence = torch::randn({kSteps, kBatch, kWidth});
  const at::Tensor targets = torch::randn({kSteps, kBatch, kWidth});
  Model model{.module = stack.ptr()};
  model.enter = [sequence] { return sequence; };
  for (const auto& block : *stack->blocks) {
    model.blocks.emplace_back(
        [block = block->as<LstmBlockImpl>()](const at::Tensor& h) { return block->forward(h); });
  }
  model.loss = [stack, targets](const at::Tensor& h) mutable {
    return torch::mse_loss(stack->head(h), targets);
  };
  return model;
}

}  // namespace reprise::bench::lstm
