// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Basic residual blocks with batch-norm, after He et al., "Deep Residual Learning for Image
// Recognition", section 4.2.
#include "bench/models/model.h"

namespace reprise::bench::resnet {

namespace nn = torch::nn;

constexpr int kBatch = 16;
constexpr int kClasses = 10;
constexpr int kSide = 32;  // of an image, in pixels
constexpr int kBlocksOfAWidth = 4;
constexpr int kWidths[] = {32, 64};

nn::Conv2d convolution(int in, int out, int size, int stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(int in, int out)
      : first(register_module("first", convolution(in, out, 3, out / in))),
        first_norm(register_module("first_norm", nn::BatchNorm2d(out))),
        second(register_module("second", convolution(out, out, 3, 1))),
        second_norm(register_module("second_norm", nn::BatchNorm2d(out))) {
    if (in != out) {
      shortcut = register_module("shortcut", convolution(in, out, 1, out / in));
    }
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor h = second_norm(second(torch::relu(first_norm(first(x)))));
    return torch::relu(h + (shortcut.is_empty() ? x : shortcut(x)));
  }

  nn::Conv2d first;
  nn::BatchNorm2d first_norm;
  nn::Conv2d second;
  nn::BatchNorm2d second_norm;
  nn::Conv2d shortcut = nullptr;
};
TORCH_MODULE(BasicBlock);

struct ResNetImpl : nn::Module {
  ResNetImpl()
      : stem(register_module("stem", convolution(3, kWidths[0], 3, 1))),
        stem_norm(register_module("stem_norm", nn::BatchNorm2d(kWidths[0]))) {
    int in = kWidths[0];
    for (const int width : kWidths) {
      for (int i = 0; i < kBlocksOfAWidth; ++i) {
        blocks->push_back(BasicBlock(in, width));
        in = width;
      }
    }
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(in, kClasses));
  }

  nn::Conv2d stem;
  nn::BatchNorm2d stem_norm;
  nn::ModuleList blocks;
  nn::Linear head = nullptr;
};
TORCH_MODULE(ResNet);

Model make() {
  ResNet net;
  const at::Tensor images = torch::randn({kBatch, 3, kSide, kSide});
  const at::Tensor labels = torch::randint(kClasses, {kBatch}, torch::kInt64);
  Model model{.module = net.ptr()};
  model.enter = [net, images]() mutable { return torch::relu(net->stem_norm(net->stem(images))); };
  model.blocks = blocks_of<BasicBlockImpl>(net->blocks);
  model.loss = [net, labels](const at::Tensor& h) mutable {
    return torch::nn::functional::cross_entropy(net->head(h.mean({2, 3})), labels);
  };
  return model;
}

}  // namespace reprise::bench::resnet
