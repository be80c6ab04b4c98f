// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The blocks of the demo's GPT.
#include "bench/models/model.h"
#include "examples/01_char_gpt/model.h"

namespace reprise::bench::gpt {

constexpr int kBatch = 4;

const char_gpt::ModelConfig kSmallConfig = {
    .vocabulary = 64, .context = 128, .width = 256, .heads = 8, .layers = 4, .dropout = 0.1};
const char_gpt::ModelConfig kLargeConfig = {
    .vocabulary = 64, .context = 1024, .width = 1024, .heads = 16, .layers = 24, .dropout = 0.1};

struct GptImpl : torch::nn::Module {
  explicit GptImpl(const char_gpt::ModelConfig& config)
      : embedding(
            register_module("embedding", torch::nn::Embedding(config.vocabulary, config.width))) {
    for (int layer = 0; layer < config.layers; ++layer) {
      blocks->push_back(char_gpt::Block(config));
    }
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(config.width, config.vocabulary));
  }

  torch::nn::Embedding embedding;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head = nullptr;
};
TORCH_MODULE(Gpt);

Model make(bool fused, Size size, at::Device device) {
  char_gpt::ModelConfig config = size == Size::kLarge ? kLargeConfig : kSmallConfig;
  config.fused = fused;
  // LibTorch's fused attention on the CPU has none.
  config.dropout = fused && device.is_cpu() ? 0 : config.dropout;
  Gpt gpt(config);
  const at::Tensor tokens =
      torch::randint(config.vocabulary, {kBatch, config.context + 1}, torch::kInt64).to(device);
  gpt->to(device);
  Model model{.module = gpt.ptr()};
  model.enter = [gpt, inputs = tokens.narrow(1, 0, config.context)]() mutable {
    return gpt->embedding(inputs);
  };
  model.blocks = blocks_of<char_gpt::BlockImpl>(gpt->blocks);
  model.loss = [gpt, targets = tokens.narrow(1, 1, config.context)](const at::Tensor& h) mutable {
    return torch::nn::functional::cross_entropy(gpt->head(h).flatten(0, 1), targets.flatten());
  };
  return model;
}

}  // namespace reprise::bench::gpt
