// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: model.h
//
// A small GPT with tensor parallelism: each rank has some heads of the attention and some of the
// MLP's hidden features; embeddings, norms and the last layer are the same on all ranks. (Shoeybi
// et al., "Megatron-LM", 2019, arXiv:1909.08053.)
#ifndef TENSOR_PARALLEL_GPT_MODEL_H_
#define TENSOR_PARALLEL_GPT_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "options.h"
#include "ranks.h"
#include "variants.h"

namespace tensor_parallel_gpt {

inline constexpr std::int64_t kVocabulary = 256;  // a token is a byte

// Starts with the same weights on any number of ranks, if the default states of their generators
// are the same.
class GptImpl : public torch::nn::Module {
 public:
  GptImpl(const Options& options, const Ranks& ranks);

  // The three parts of forward: tokens (batch, context) to (batch, context, width), through the
  // blocks, and to logits (batch, context, vocabulary).
  torch::Tensor embed(const torch::Tensor& tokens);
  torch::Tensor run_blocks(torch::Tensor h, const BlockRunner& run_block);
  torch::Tensor logits(const torch::Tensor& h);

 private:
  torch::nn::Embedding token_embedding_;
  torch::nn::Embedding position_embedding_;
  std::vector<Callable> blocks_;
  torch::nn::LayerNorm final_norm_;
  torch::nn::Linear head_;
};
TORCH_MODULE(Gpt);

}  // namespace tensor_parallel_gpt

#endif  // TENSOR_PARALLEL_GPT_MODEL_H_
