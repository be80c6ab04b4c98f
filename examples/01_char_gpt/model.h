// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: model.h
//
// A small GPT: learned positions, pre-norm blocks, causal attention, dropout. How a block is run is
// the caller's choice, so that the same weights can be trained with and without checkpointing.
#ifndef CHAR_GPT_MODEL_H_
#define CHAR_GPT_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "variants.h"

namespace char_gpt {

struct ModelConfig {
  std::int64_t vocabulary = 0;
  std::int64_t context = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t layers = 0;
  double dropout = 0;
  bool fused = false;  // scaled_dot_product_attention instead of the explicit formula
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const ModelConfig& config);

  // (batch, tokens, width) to the same shape.
  torch::Tensor forward(const torch::Tensor& h);

 private:
  torch::Tensor attend(const torch::Tensor& h);
  torch::Tensor explicit_attention(const torch::Tensor& q, const torch::Tensor& k,
                                   const torch::Tensor& v);
  torch::Tensor drop(const torch::Tensor& h) const;

  ModelConfig config_;
  torch::nn::LayerNorm attention_norm_;
  torch::nn::Linear queries_keys_values_;
  torch::nn::Linear attention_out_;
  torch::nn::LayerNorm mlp_norm_;
  torch::nn::Linear mlp_up_;
  torch::nn::Linear mlp_down_;
  torch::Tensor future_;  // (context, context), true where a token must not look
};
TORCH_MODULE(Block);

class GptImpl : public torch::nn::Module {
 public:
  explicit GptImpl(const ModelConfig& config);

  // tokens: (batch, n) int64, n at most the context. Returns logits (batch, n, vocabulary).
  torch::Tensor forward(const torch::Tensor& tokens, const BlockRunner& run_block);

 private:
  void initialise_weights();

  ModelConfig config_;
  torch::nn::Embedding token_embedding_;
  torch::nn::Embedding position_embedding_;
  std::vector<Block> blocks_;
  torch::nn::LayerNorm final_norm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Gpt);

}  // namespace char_gpt

#endif  // CHAR_GPT_MODEL_H_
