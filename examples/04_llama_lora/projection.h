// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: projection.h
//
// A linear map with a LoRA adapter: Hu et al., "LoRA: Low-Rank Adaptation of Large Language
// Models", 2021, section 4.1.
#ifndef LLAMA_LORA_PROJECTION_H_
#define LLAMA_LORA_PROJECTION_H_

#include <torch/torch.h>

#include <cstdint>

namespace llama_lora {

class ProjectionImpl : public torch::nn::Module {
 public:
  // Without an adapter. `gain` scales the random weights.
  ProjectionImpl(std::int64_t in, std::int64_t out, double gain = 1);

  // Gives it a new adapter that changes nothing yet. Draws from LibTorch's default generator.
  void adapt(std::int64_t rank);

  // (..., in) to (..., out).
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::Tensor weight_;        // (out, in)
  torch::Tensor adapter_down_;  // (rank, in), undefined without an adapter
  torch::Tensor adapter_up_;    // (out, rank)
};
TORCH_MODULE(Projection);

}  // namespace llama_lora

#endif  // LLAMA_LORA_PROJECTION_H_
