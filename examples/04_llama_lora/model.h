// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: model.h
//
// A small model of LLaMA's shape: RMSNorm, rotary positions, grouped-query attention, SwiGLU, after
// Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023. How a block is run
// is the caller's choice.
#ifndef LLAMA_LORA_MODEL_H_
#define LLAMA_LORA_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "options.h"
#include "projection.h"

namespace llama_lora {

// Cosines and sines of the angles by which queries and keys are rotated: (tokens, head width).
struct Rotary {
  torch::Tensor cosine;
  torch::Tensor sine;
};

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(const Options& options);

  // (batch, tokens, width) to the same shape.
  torch::Tensor forward(const torch::Tensor& h, const Rotary& rotary);

 private:
  torch::Tensor attend(const torch::Tensor& x, const Rotary& rotary);

  const std::int64_t head_width_;
  torch::Tensor attention_norm_;
  Projection queries_{nullptr};
  Projection keys_{nullptr};
  Projection values_{nullptr};
  Projection attention_out_{nullptr};
  torch::Tensor mlp_norm_;
  Projection gate_{nullptr};
  Projection up_{nullptr};
  Projection down_{nullptr};
};
TORCH_MODULE(Block);

using BlockRunner =
    std::function<torch::Tensor(Block& block, const torch::Tensor& h, const Rotary& rotary)>;

class LlamaImpl : public torch::nn::Module {
 public:
  // Draws the weights from LibTorch's default generator.
  explicit LlamaImpl(const Options& options);

  // tokens: (batch, n) int64, n at most the context. Returns logits (batch, n, vocabulary).
  torch::Tensor forward(const torch::Tensor& tokens, const BlockRunner& run_block);

  // The parameters of the base model, and those of the adapters.
  [[nodiscard]] std::vector<torch::Tensor> base_parameters() const;
  [[nodiscard]] std::vector<torch::Tensor> adapter_parameters() const;

  // Gives every projection a new adapter.
  void adapt(std::int64_t rank);

 private:
  torch::nn::Embedding embedding_;
  std::vector<Block> blocks_;
  torch::Tensor final_norm_;
  torch::nn::Linear head_;
  Rotary rotary_;
};
TORCH_MODULE(Llama);

}  // namespace llama_lora

#endif  // LLAMA_LORA_MODEL_H_
