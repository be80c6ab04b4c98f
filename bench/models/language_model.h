// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: language_model.h
//
// A model that predicts the next token: an embedding, a row of blocks, and a head.
#ifndef REPRISE_BENCH_MODELS_LANGUAGE_MODEL_H_
#define REPRISE_BENCH_MODELS_LANGUAGE_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "bench/models/model.h"

namespace reprise::bench {

// Config: has the members vocabulary, width and layers, and makes a block.
template <class Block, class Config>
struct LanguageModelImpl : torch::nn::Module {
  explicit LanguageModelImpl(const Config& config)
      : embedding(
            register_module("embedding", torch::nn::Embedding(config.vocabulary, config.width))) {
    for (int layer = 0; layer < config.layers; ++layer) {
      blocks->push_back(Block(config));
    }
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(config.width, config.vocabulary));
  }

  torch::nn::Embedding embedding;
  torch::nn::ModuleList blocks;
  torch::nn::Linear head = nullptr;
};

// Block: a holder of modules. Trains on `batch` sequences of `length` tokens, drawn after the
// parameters.
template <class Block, class Config>
Model make_language_model(const Config& config, std::int64_t batch, std::int64_t length,
                          at::Device device = at::kCPU) {
  const auto network = std::make_shared<LanguageModelImpl<Block, Config>>(config);
  const at::Tensor tokens =
      torch::randint(config.vocabulary, {batch, length + 1}, torch::kInt64).to(device);
  network->to(device);
  Model model{.module = network};
  model.enter = [network, inputs = tokens.narrow(1, 0, length)] {
    return network->embedding(inputs);
  };
  model.blocks = blocks_of<typename Block::ContainedType>(network->blocks);
  model.loss = [network, targets = tokens.narrow(1, 1, length)](const at::Tensor& h) {
    return torch::nn::functional::cross_entropy(network->head(h).flatten(0, 1), targets.flatten());
  };
  return model;
}

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_MODELS_LANGUAGE_MODEL_H_
