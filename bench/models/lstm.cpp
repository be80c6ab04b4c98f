// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Residual layers of an LSTM each, over a sequence of vectors.
#include <tuple>

#include "bench/models/regression.h"

namespace reprise::bench::lstm {

namespace nn = torch::nn;

constexpr int kSteps = 64;
constexpr int kBatch = 16;
constexpr int kWidth = 128;
constexpr int kLayers = 4;
constexpr double kDropout = 0.1;

struct LstmBlock : nn::Module {
  LstmBlock()
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        lstm(register_module("lstm", nn::LSTM(kWidth, kWidth))) {}

  at::Tensor forward(const at::Tensor& h) {
    return h + torch::dropout(std::get<0>(lstm(norm(h))), kDropout, is_training());
  }

  nn::LayerNorm norm;
  nn::LSTM lstm;
};
Model make() { return make_regression<LstmBlock>(kLayers, {kSteps, kBatch, kWidth}); }

}  // namespace reprise::bench::lstm
