// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "model.h"

#include "images.h"

namespace resnet {
namespace {

namespace nn = torch::nn;

constexpr int kStages = 3;

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

}  // namespace

ResidualBlockImpl::ResidualBlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
    : first_(register_module("first", convolution(in, out, 3, stride))),
      first_norm_(register_module("first_norm", nn::BatchNorm2d(out))),
      second_(register_module("second", convolution(out, out, 3, 1))),
      second_norm_(register_module("second_norm", nn::BatchNorm2d(out))) {
  if (in != out) {
    shortcut_->push_back(convolution(in, out, 1, stride));
    shortcut_->push_back(nn::BatchNorm2d(out));
  }
  register_module("shortcut", shortcut_);
}

torch::Tensor ResidualBlockImpl::forward(const torch::Tensor& x) {
  const torch::Tensor h = second_norm_(second_(torch::relu(first_norm_(first_(x)))));
  return torch::relu(h + (shortcut_->is_empty() ? x : shortcut_->forward(x)));
}

ResNetImpl::ResNetImpl(const Options& options)
    : stem_(register_module("stem", nn::Sequential(convolution(1, options.width, 3, 1),
                                                   nn::BatchNorm2d(options.width), nn::ReLU()))),
      head_(nullptr) {
  std::int64_t in = options.width;
  for (int stage = 0; stage < kStages; ++stage) {
    const std::int64_t out = options.width << stage;
    for (std::int64_t i = 0; i < options.blocks; ++i) {
      blocks_->push_back(ResidualBlock(in, out, out / in));
      in = out;
    }
  }
  register_module("blocks", blocks_);
  head_ = register_module("head", nn::Linear(in, kClasses));
}

torch::Tensor ResNetImpl::forward(const torch::Tensor& images) {
  return head_(blocks_->forward(stem_->forward(images)).mean({2, 3}));
}

}  // namespace resnet
