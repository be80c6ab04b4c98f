// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Feed-forward layers of which each token uses one of several, as in Fedus et al., "Switch
// Transformers", section 2.1, without a capacity. Shapes depend on data.
#include "bench/models/regression.h"

namespace reprise::bench::moe {

namespace nn = torch::nn;

constexpr int kTokens = 1024;
constexpr int kWidth = 128;
constexpr int kExperts = 4;
constexpr int kLayers = 4;
constexpr double kDropout = 0.1;

struct ExpertImpl : nn::Module {
  ExpertImpl()
      : up(register_module("up", nn::Linear(kWidth, 4 * kWidth))),
        down(register_module("down", nn::Linear(4 * kWidth, kWidth))) {}

  at::Tensor forward(const at::Tensor& x) { return down(torch::gelu(up(x))); }

  nn::Linear up;
  nn::Linear down;
};
TORCH_MODULE(Expert);

struct SwitchBlock : nn::Module {
  SwitchBlock()
      : norm(register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})))),
        router(register_module("router", nn::Linear(kWidth, kExperts))) {
    for (int i = 0; i < kExperts; ++i) {
      experts->push_back(Expert());
    }
    register_module("experts", experts);
  }

  at::Tensor forward(const at::Tensor& h) {
    const at::Tensor tokens = norm(h);
    const auto [weight, choice] = torch::softmax(router(tokens), -1).max(-1);
    at::Tensor mixed = torch::zeros_like(tokens);
    for (int i = 0; i < kExperts; ++i) {
      const at::Tensor rows = (choice == i).nonzero().squeeze(1);
      const at::Tensor out = experts->at<ExpertImpl>(i).forward(tokens.index_select(0, rows));
      mixed = mixed.index_add(0, rows, out * weight.index_select(0, rows).unsqueeze(1));
    }
    return h + torch::dropout(mixed, kDropout, is_training());
  }

  nn::LayerNorm norm;
  nn::Linear router;
  nn::ModuleList experts;
};
Model make() { return make_regression<SwitchBlock>(kLayers, {kTokens, kWidth}); }

}  // namespace reprise::bench::moe
