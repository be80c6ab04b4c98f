// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: model.h
//
// A ResNet for small images: He et al., "Deep Residual Learning for Image Recognition", 2015,
// section 4.2. It knows nothing of checkpointing.
#ifndef RESNET_MODEL_H_
#define RESNET_MODEL_H_

#include <torch/torch.h>

#include "options.h"

namespace resnet {

// Two convolutions of 3x3 with batch-norm, beside a shortcut.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride);

  // (batch, in, height, width) to (batch, out, height / stride, width / stride).
  torch::Tensor forward(const torch::Tensor& x);

 private:
  torch::nn::Conv2d first_;
  torch::nn::BatchNorm2d first_norm_;
  torch::nn::Conv2d second_;
  torch::nn::BatchNorm2d second_norm_;
  torch::nn::Sequential shortcut_;  // empty: the identity
};
TORCH_MODULE(ResidualBlock);

// A stem, three stages of blocks, each with half the height and width and twice the channels of the
// one before, and a linear head.
class ResNetImpl : public torch::nn::Module {
 public:
  explicit ResNetImpl(const Options& options);

  // (batch, 1, height, width) to logits (batch, classes).
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::nn::Sequential stem_;
  torch::nn::Sequential blocks_;
  torch::nn::Linear head_;
};
TORCH_MODULE(ResNet);

}  // namespace resnet

#endif  // RESNET_MODEL_H_
