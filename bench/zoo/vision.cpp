// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/zoo/zoo.h"

namespace reprise::zoo {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

nn::Conv2d conv(int in, int out, int size = 3, int stride = 1) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

// Residual blocks with batch-norm, after He et al. 2015.
struct ResNet : Model {
  struct Block : nn::Module {
    Block(int in, int out, int stride)
        : conv1(register_module("conv1", conv(in, out, 3, stride))),
          conv2(register_module("conv2", conv(out, out))),
          bn1(register_module("bn1", nn::BatchNorm2d(out))),
          bn2(register_module("bn2", nn::BatchNorm2d(out))) {
      if (in != out) {
        shortcut = register_module("shortcut", conv(in, out, 1, stride));
      }
    }
    at::Tensor forward(const at::Tensor& x) {
      at::Tensor h = bn1(conv1(x));
      h = bn2(conv2(torch::relu_(h)));
      h += shortcut ? shortcut(x) : x;
      return torch::relu_(h);
    }
    nn::Conv2d conv1, conv2, shortcut{nullptr};
    nn::BatchNorm2d bn1, bn2;
  };

  explicit ResNet(std::int64_t scale) : images(torch::randn({4 * scale, 3, 32, 32})) {
    stem = register_module("stem", conv(3, 16));
    for (int i = 0; i < 6; ++i) {
      const int width = 16 << (i / 2);
      const int in = i == 0 ? 16 : 16 << ((i - 1) / 2);
      blocks.push_back(std::make_shared<Block>(in, width, in == width ? 1 : 2));
      register_module("block" + std::to_string(i), blocks.back());
    }
    head = register_module("head", nn::Linear(64, 10));
    labels = torch::randint(10, {images.size(0)});
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = stem(images);
    for (const auto& block : blocks) {
      h = run(block, h);
    }
    return F::cross_entropy(head(h.mean({2, 3})), labels);
  }
  nn::Conv2d stem{nullptr};
  std::vector<std::shared_ptr<Block>> blocks;
  nn::Linear head{nullptr};
  at::Tensor images, labels;
};

// Plain convolutions, ReLU in place, pooling and dropout, after Simonyan and Zisserman 2014.
struct Vgg : Model {
  explicit Vgg(std::int64_t scale) : images(torch::randn({4 * scale, 3, 32, 32})) {
    int in = 3;
    for (const int width : {16, 32, 64}) {
      nn::Sequential stage;
      for (int i = 0; i < 2; ++i) {
        stage->push_back(nn::Conv2d(nn::Conv2dOptions(in, width, 3).padding(1)));
        stage->push_back(nn::ReLU(nn::ReLUOptions().inplace(true)));
        in = width;
      }
      stage->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2)));
      stages->push_back(stage);
    }
    register_module("stages", stages);
    head = register_module("head", nn::Sequential(nn::Flatten(), nn::Linear(64 * 16, 128),
                                                  nn::ReLU(nn::ReLUOptions().inplace(true)),
                                                  nn::Dropout(0.5), nn::Linear(128, 10)));
    labels = torch::randint(10, {images.size(0)});
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = images;
    for (const auto& stage : *stages) {
      h = run(stage->as<nn::Sequential>(), h);
    }
    return F::cross_entropy(run(head, h), labels);
  }
  nn::ModuleList stages;
  nn::Sequential head{nullptr};
  at::Tensor images, labels;
};

// Pre-norm encoder over patches, after Dosovitskiy et al. 2020.
struct VisionTransformer : Model {
  struct Block : nn::Module {
    explicit Block(int width)
        : norm1(register_module("norm1", nn::LayerNorm(nn::LayerNormOptions({width})))),
          norm2(register_module("norm2", nn::LayerNorm(nn::LayerNormOptions({width})))),
          qkv(register_module("qkv", nn::Linear(width, 3 * width))),
          out(register_module("out", nn::Linear(width, width))),
          up(register_module("up", nn::Linear(width, 4 * width))),
          down(register_module("down", nn::Linear(4 * width, width))) {}
    at::Tensor forward(const at::Tensor& x) {
      const auto b = x.size(0), t = x.size(1), c = x.size(2);
      const auto parts = qkv(norm1(x)).view({b, t, 3, 4, c / 4}).permute({2, 0, 3, 1, 4}).unbind(0);
      const at::Tensor a = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
      const at::Tensor h = x + out(a.transpose(1, 2).reshape({b, t, c}));
      return h + down(torch::gelu(up(norm2(h))));
    }
    nn::LayerNorm norm1, norm2;
    nn::Linear qkv, out, up, down;
  };

  explicit VisionTransformer(std::int64_t scale) : images(torch::randn({2 * scale, 3, 32, 32})) {
    patches = register_module("patches", nn::Conv2d(nn::Conv2dOptions(3, 64, 4).stride(4)));
    positions = register_parameter("positions", torch::randn({1, 64, 64}) * 0.02);
    for (int i = 0; i < 4; ++i) {
      blocks->push_back(std::make_shared<Block>(64));
    }
    register_module("blocks", blocks);
    head = register_module("head", nn::Linear(64, 10));
    labels = torch::randint(10, {images.size(0)});
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = patches(images).flatten(2).transpose(1, 2) + positions;
    for (const auto& block : *blocks) {
      h = run(block->as<Block>(), h);
    }
    return F::cross_entropy(head(h.mean(1)), labels);
  }
  nn::Conv2d patches{nullptr};
  nn::ModuleList blocks;
  nn::Linear head{nullptr};
  at::Tensor positions, images, labels;
};

// One-stage detector: convolutions, boxes decoded and matched to targets by their overlap; the
// matching reads values on the host.
struct Detector : Model {
  explicit Detector(std::int64_t scale) : images(torch::randn({2 * scale, 3, 32, 32})) {
    int in = 3;
    for (const int width : {16, 32, 64}) {
      backbone->push_back(nn::Sequential(conv(in, width, 3, 2), nn::BatchNorm2d(width), nn::SiLU(),
                                         conv(width, width), nn::BatchNorm2d(width), nn::SiLU()));
      in = width;
    }
    register_module("backbone", backbone);
    boxes = register_module("boxes", nn::Conv2d(nn::Conv2dOptions(64, 4, 1)));
    scores = register_module("scores", nn::Conv2d(nn::Conv2dOptions(64, 1, 1)));
    targets = torch::rand({images.size(0), 3, 4}) * 16 + 8;
  }
  static at::Tensor overlap(const at::Tensor& a, const at::Tensor& b) {
    const at::Tensor width =
        (torch::min(a.select(-1, 0) + a.select(-1, 2) / 2, b.select(-1, 0) + b.select(-1, 2) / 2) -
         torch::max(a.select(-1, 0) - a.select(-1, 2) / 2, b.select(-1, 0) - b.select(-1, 2) / 2))
            .clamp_min(0);
    const at::Tensor height =
        (torch::min(a.select(-1, 1) + a.select(-1, 3) / 2, b.select(-1, 1) + b.select(-1, 3) / 2) -
         torch::max(a.select(-1, 1) - a.select(-1, 3) / 2, b.select(-1, 1) - b.select(-1, 3) / 2))
            .clamp_min(0);
    const at::Tensor both = width * height;
    return both / (a.select(-1, 2) * a.select(-1, 3) + b.select(-1, 2) * b.select(-1, 3) - both);
  }
  at::Tensor image_loss(const at::Tensor& box, const at::Tensor& score, const at::Tensor& target) {
    const at::Tensor iou = overlap(box.unsqueeze(1), target.unsqueeze(0));
    const auto [best, which] = iou.max(1);
    const at::Tensor is_object = best > 0.1;
    at::Tensor loss = F::binary_cross_entropy_with_logits(score, is_object.to(score.dtype()));
    if (is_object.any().item<bool>()) {
      loss = loss + (1 - best.masked_select(is_object)).mean() +
             F::smooth_l1_loss(box.index({is_object}), target.index({which}).index({is_object}));
    }
    return loss;
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = images;
    for (const auto& stage : *backbone) {
      h = run(stage->as<nn::Sequential>(), h);
    }
    const at::Tensor box = boxes(h).flatten(2).transpose(1, 2).sigmoid() * 32;
    const at::Tensor score = scores(h).flatten(1);
    std::vector<at::Tensor> losses;
    for (std::int64_t i = 0; i < images.size(0); ++i) {
      losses.push_back(run([this](const at::Tensor& b, const at::Tensor& s,
                                  const at::Tensor& t) { return image_loss(b, s, t); },
                           box[i], score[i], targets[i]));
    }
    return torch::stack(losses).mean();
  }
  nn::ModuleList backbone;
  nn::Conv2d boxes{nullptr}, scores{nullptr};
  at::Tensor images, targets;
};

// Each layer reads the results of all before it, after Huang et al. 2016.
struct DenseNet : Model {
  static constexpr int kGrowth = 12;
  static constexpr int kStem = 24;
  static constexpr int kLayers = 6;  // of each block

  struct Layer : nn::Module {
    explicit Layer(int in)
        : norm1(register_module("norm1", nn::BatchNorm2d(in))),
          norm2(register_module("norm2", nn::BatchNorm2d(4 * kGrowth))),
          conv1(register_module("conv1", conv(in, 4 * kGrowth, 1))),
          conv2(register_module("conv2", conv(4 * kGrowth, kGrowth))) {}
    at::Tensor forward(const at::Tensor& x) {
      const at::Tensor h = conv1(torch::relu(norm1(x)));
      return torch::cat({x, conv2(torch::relu(norm2(h)))}, 1);
    }
    nn::BatchNorm2d norm1, norm2;
    nn::Conv2d conv1, conv2;
  };

  explicit DenseNet(std::int64_t scale) : images(torch::randn({2 * scale, 3, 32, 32})) {
    stem = register_module("stem", conv(3, kStem));
    int width = kStem;
    for (int i = 0; i < 2 * kLayers; ++i) {
      if (i == kLayers) {
        transition = register_module("transition", conv(width, width / 2, 1));
        width /= 2;
      }
      layers.push_back(std::make_shared<Layer>(width));
      register_module("layer" + std::to_string(i), layers.back());
      width += kGrowth;
    }
    head = register_module("head", nn::Linear(width, 10));
    labels = torch::randint(10, {images.size(0)});
  }
  at::Tensor loss(const RegionRunner& run) override {
    at::Tensor h = stem(images);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i == kLayers) {
        h = torch::avg_pool2d(transition(h), 2);
      }
      h = run(layers[i], h);
    }
    return F::cross_entropy(head(h.mean({2, 3})), labels);
  }
  nn::Conv2d stem{nullptr}, transition{nullptr};
  std::vector<std::shared_ptr<Layer>> layers;
  nn::Linear head{nullptr};
  at::Tensor images, labels;
};

}  // namespace

std::vector<Kind> vision_kinds() {
  return {kind_of<ResNet>("resnet", "residual convolutions with batch-norm, ReLU in place"),
          kind_of<Vgg>("vgg", "convolutions, ReLU in place, dropout, in Sequentials"),
          kind_of<VisionTransformer>("vit", "pre-norm transformer over patches"),
          kind_of<Detector>("detector", "convolutions, box matching with host reads"),
          kind_of<DenseNet>("densenet", "each layer reads the results of all before it")};
}

}  // namespace reprise::zoo
