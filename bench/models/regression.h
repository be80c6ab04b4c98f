// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: regression.h
//
// A row of equal blocks over vectors, whose result a linear layer compares with random vectors.
#ifndef REPRISE_BENCH_MODELS_REGRESSION_H_
#define REPRISE_BENCH_MODELS_REGRESSION_H_

#include <cstdint>
#include <vector>

#include "bench/models/model.h"

namespace reprise::bench {

template <class BlockImpl>
struct RegressionImpl : torch::nn::Module {
  RegressionImpl(int layers, std::int64_t width) {
    for (int layer = 0; layer < layers; ++layer) {
      blocks->push_back(std::make_shared<BlockImpl>());
    }
    register_module("blocks", blocks);
    head = register_module("head", torch::nn::Linear(width, width));
  }

  torch::nn::ModuleList blocks;
  torch::nn::Linear head = nullptr;
};

// shape: of the input and the result, the width last.
template <class BlockImpl>
Model make_regression(int layers, const std::vector<std::int64_t>& shape) {
  const auto module = std::make_shared<RegressionImpl<BlockImpl>>(layers, shape.back());
  const at::Tensor inputs = torch::randn(shape);
  const at::Tensor targets = torch::randn(shape);
  Model model{.module = module};
  model.enter = [inputs] { return inputs; };
  model.blocks = blocks_of<BlockImpl>(module->blocks);
  model.loss = [module, targets](const at::Tensor& h) {
    return torch::mse_loss(module->head(h), targets);
  };
  return model;
}

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_MODELS_REGRESSION_H_
