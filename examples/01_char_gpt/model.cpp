// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "model.h"

#include <cmath>
#include <limits>
#include <string>

namespace char_gpt {
namespace {

namespace nn = torch::nn;

// (positions, width): sines and cosines of wavelengths that grow geometrically up to 2 pi times the
// number of positions, after "Attention Is All You Need", section 3.5.
torch::Tensor waves(std::int64_t positions, std::int64_t width) {
  const std::int64_t pairs = (width + 1) / 2;
  const auto longest = static_cast<double>(positions);
  const torch::Tensor exponents =
      torch::arange(pairs, torch::kFloat32) / static_cast<double>(pairs);
  const torch::Tensor angles =
      torch::outer(torch::arange(positions, torch::kFloat32), torch::pow(longest, -exponents));
  return torch::cat({angles.sin(), angles.cos()}, 1).narrow(1, 0, width);
}

}  // namespace

BlockImpl::BlockImpl(const ModelConfig& config)
    : config_(config),
      attention_norm_(
          register_module("attention_norm", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
      queries_keys_values_(
          register_module("queries_keys_values", nn::Linear(config.width, 3 * config.width))),
      attention_out_(register_module("attention_out", nn::Linear(config.width, config.width))),
      mlp_norm_(register_module("mlp_norm", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
      mlp_up_(register_module("mlp_up", nn::Linear(config.width, 4 * config.width))),
      mlp_down_(register_module("mlp_down", nn::Linear(4 * config.width, config.width))),
      future_(register_buffer(
          "future",
          torch::ones({config.context, config.context}, torch::kBool).triu(/*diagonal=*/1))) {}

torch::Tensor BlockImpl::forward(const torch::Tensor& h) {
  const torch::Tensor attended = h + drop(attend(attention_norm_(h)));
  const torch::Tensor hidden = torch::gelu(mlp_up_(mlp_norm_(attended)));
  return attended + drop(mlp_down_(hidden));
}

torch::Tensor BlockImpl::attend(const torch::Tensor& h) {
  const std::int64_t batch = h.size(0);
  const std::int64_t tokens = h.size(1);
  const std::int64_t head_width = config_.width / config_.heads;
  const std::vector<torch::Tensor> qkv = queries_keys_values_(h)
                                             .view({batch, tokens, 3, config_.heads, head_width})
                                             .permute({2, 0, 3, 1, 4})
                                             .unbind(0);
  const torch::Tensor mixed =
      config_.fused ? torch::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], /*attn_mask=*/{},
                                                          is_training() ? config_.dropout : 0.0,
                                                          /*is_causal=*/true)
                    : explicit_attention(qkv[0], qkv[1], qkv[2]);
  return attention_out_(mixed.transpose(1, 2).reshape({batch, tokens, config_.width}));
}

torch::Tensor BlockImpl::explicit_attention(const torch::Tensor& q, const torch::Tensor& k,
                                            const torch::Tensor& v) {
  const std::int64_t tokens = q.size(2);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const torch::Tensor future = future_.narrow(0, 0, tokens).narrow(1, 0, tokens);
  const torch::Tensor scores = torch::matmul(q * scale, k.transpose(2, 3))
                                   .masked_fill(future, -std::numeric_limits<double>::infinity());
  return torch::matmul(drop(torch::softmax(scores, /*dim=*/-1)), v);
}

torch::Tensor BlockImpl::drop(const torch::Tensor& h) const {
  return torch::dropout(h, config_.dropout, is_training());
}

GptImpl::GptImpl(const ModelConfig& config)
    : config_(config),
      token_embedding_(
          register_module("token_embedding", nn::Embedding(config.vocabulary, config.width))),
      position_embedding_(
          register_module("position_embedding", nn::Embedding(config.context, config.width))),
      final_norm_(
          register_module("final_norm", nn::LayerNorm(nn::LayerNormOptions({config.width})))),
      head_(register_module("head", nn::Linear(config.width, config.vocabulary))) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    blocks_.emplace_back(register_module("block" + std::to_string(layer), Block(config)));
  }
  initialise_weights();
}

torch::Tensor GptImpl::forward(const torch::Tensor& tokens, const BlockRunner& run_block) {
  const torch::Tensor positions =
      torch::arange(tokens.size(1), torch::dtype(torch::kInt64).device(tokens.device()));
  torch::Tensor h = torch::dropout(token_embedding_(tokens) + position_embedding_(positions),
                                   config_.dropout, is_training());
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const Callable block = [block = blocks_[layer]](const torch::Tensor& x) mutable {
      return block(x);
    };
    h = run_block(block, "block" + std::to_string(layer), h);
  }
  return head_(final_norm_(h));
}

// Weights that keep the size of what passes through them; weights that add to the residual stream
// are smaller the deeper the model is. Positions start as waves of many lengths, from which
// attention to near tokens is learned within few steps.
void GptImpl::initialise_weights() {
  const torch::NoGradGuard no_grad;
  for (const auto& item : named_parameters()) {
    const std::string& name = item.key();
    const torch::Tensor& parameter = item.value();
    if (name.find("bias") != std::string::npos) {
      parameter.zero_();
    } else if (parameter.dim() == 2) {
      const bool is_residual = name.find("attention_out") != std::string::npos ||
                               name.find("mlp_down") != std::string::npos;
      const double depth = is_residual ? 2.0 * static_cast<double>(config_.layers) : 1.0;
      parameter.normal_(0, 1 / std::sqrt(depth * static_cast<double>(parameter.size(1))));
    }
  }
  token_embedding_->weight.normal_();
  position_embedding_->weight.copy_(waves(config_.context, config_.width));
}

}  // namespace char_gpt
