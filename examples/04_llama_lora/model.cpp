// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "model.h"

#include <cmath>
#include <string>

#include "text.h"

namespace llama_lora {
namespace {

namespace nn = torch::nn;

constexpr double kEpsilon = 1e-5;
constexpr double kRotaryBase = 10000;

torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight) {
  return torch::rms_norm(x, weight.sizes(), weight, kEpsilon);
}

Rotary make_rotary(std::int64_t tokens, std::int64_t head_width) {
  const torch::Tensor exponents = torch::arange(0, head_width, 2, torch::kFloat32) / head_width;
  const torch::Tensor angles =
      torch::outer(torch::arange(tokens, torch::kFloat32), torch::pow(kRotaryBase, -exponents));
  const torch::Tensor both_halves = torch::cat({angles, angles}, 1);
  return {.cosine = both_halves.cos(), .sine = both_halves.sin()};
}

// x: (batch, heads, tokens, head width).
torch::Tensor rotate(const torch::Tensor& x, const Rotary& rotary) {
  const std::vector<torch::Tensor> halves = x.chunk(2, -1);
  return x * rotary.cosine + torch::cat({-halves[1], halves[0]}, -1) * rotary.sine;
}

// Results that are added to the residual stream are smaller the deeper the model is.
double residual_gain(const Options& options) {
  return 1 / std::sqrt(2.0 * static_cast<double>(options.layers));
}

}  // namespace

BlockImpl::BlockImpl(const Options& options) : head_width_(options.width / options.heads) {
  const auto project = [this](const char* name, std::int64_t in, std::int64_t out,
                              double gain = 1) {
    return register_module(name, Projection(in, out, gain));
  };
  const std::int64_t width = options.width;
  const std::int64_t kv_width = options.kv_heads * head_width_;
  attention_norm_ = register_parameter("attention_norm", torch::ones(width));
  queries_ = project("queries", width, width);
  keys_ = project("keys", width, kv_width);
  values_ = project("values", width, kv_width);
  attention_out_ = project("attention_out", width, width, residual_gain(options));
  mlp_norm_ = register_parameter("mlp_norm", torch::ones(width));
  gate_ = project("gate", width, options.hidden);
  up_ = project("up", width, options.hidden);
  down_ = project("down", options.hidden, width, residual_gain(options));
}

torch::Tensor BlockImpl::forward(const torch::Tensor& h, const Rotary& rotary) {
  const torch::Tensor attended = h + attend(rms_norm(h, attention_norm_), rotary);
  const torch::Tensor x = rms_norm(attended, mlp_norm_);
  return attended + down_(torch::silu(gate_(x)) * up_(x));
}

torch::Tensor BlockImpl::attend(const torch::Tensor& x, const Rotary& rotary) {
  const std::int64_t batch = x.size(0);
  const std::int64_t tokens = x.size(1);
  const auto split_heads = [&](const torch::Tensor& features) {
    return features.view({batch, tokens, -1, head_width_}).transpose(1, 2);
  };
  const torch::Tensor mixed = torch::scaled_dot_product_attention(
      rotate(split_heads(queries_(x)), rotary), rotate(split_heads(keys_(x)), rotary),
      split_heads(values_(x)), /*attn_mask=*/{}, /*dropout_p=*/0.0, /*is_causal=*/true,
      /*scale=*/{}, /*enable_gqa=*/true);
  return attention_out_(mixed.transpose(1, 2).flatten(2));
}

LlamaImpl::LlamaImpl(const Options& options)
    : embedding_(register_module("embedding", nn::Embedding(kVocabulary, options.width))),
      final_norm_(register_parameter("final_norm", torch::ones(options.width))),
      head_(register_module("head",
                            nn::Linear(nn::LinearOptions(options.width, kVocabulary).bias(false)))),
      rotary_(make_rotary(options.context, options.width / options.heads)) {
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    blocks_.push_back(register_module("block" + std::to_string(layer), Block(options)));
  }
}

torch::Tensor LlamaImpl::forward(const torch::Tensor& tokens, const BlockRunner& run_block) {
  const Rotary rotary = {.cosine = rotary_.cosine.narrow(0, 0, tokens.size(1)),
                         .sine = rotary_.sine.narrow(0, 0, tokens.size(1))};
  torch::Tensor h = embedding_(tokens);
  for (Block& block : blocks_) {
    h = run_block(block, h, rotary);
  }
  return head_(rms_norm(h, final_norm_));
}

std::vector<torch::Tensor> LlamaImpl::base_parameters() const {
  std::vector<torch::Tensor> parameters;
  for (const auto& item : named_parameters()) {
    if (item.key().find("adapter") == std::string::npos) {
      parameters.push_back(item.value());
    }
  }
  return parameters;
}

std::vector<torch::Tensor> LlamaImpl::adapter_parameters() const {
  std::vector<torch::Tensor> parameters;
  for (const auto& item : named_parameters()) {
    if (item.key().find("adapter") != std::string::npos) {
      parameters.push_back(item.value());
    }
  }
  return parameters;
}

void LlamaImpl::adapt(std::int64_t rank) {
  for (const auto& module : modules()) {
    if (auto* projection = module->as<Projection>()) {
      projection->adapt(rank);
    }
  }
}

}  // namespace llama_lora
