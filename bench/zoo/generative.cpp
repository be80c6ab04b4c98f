// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/zoo/zoo.h"

namespace reprise::zoo {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// Encoder, noise, decoder, after Kingma and Welling 2013.
struct Vae : Model {
  explicit Vae(std::int64_t scale) : images(torch::rand({16 * scale, 256})) {
    encoder = register_module("encoder", nn::Sequential(nn::Linear(256, 128), nn::ReLU(),
                                                        nn::Linear(128, 64), nn::ReLU()));
    decoder = register_module(
        "decoder", nn::Sequential(nn::Linear(8, 64), nn::ReLU(), nn::Linear(64, 128), nn::ReLU(),
                                  nn::Linear(128, 256), nn::Sigmoid()));
    mean = register_module("mean", nn::Linear(64, 8));
    log_variance = register_module("log_variance", nn::Linear(64, 8));
  }
  at::Tensor loss(const RegionRunner& run) override {
    const at::Tensor h = run(encoder, images);
    const at::Tensor mu = mean(h), spread = log_variance(h);
    const auto draw = [m = decoder](const at::Tensor& at, const at::Tensor& log_width) mutable {
      return m->forward(at + torch::randn_like(at) * (log_width * 0.5).exp());
    };
    const at::Tensor images_again = run(draw, mu, spread);
    const at::Tensor divergence = -0.5 * (1 + spread - mu.pow(2) - spread.exp()).sum(1).mean();
    return F::binary_cross_entropy(images_again, images) + 0.01 * divergence;
  }
  nn::Sequential encoder{nullptr}, decoder{nullptr};
  nn::Linear mean{nullptr}, log_variance{nullptr};
  at::Tensor images;
};

// Generator of transposed convolutions behind a discriminator, after Radford et al. 2015.
struct Gan : Model {
  explicit Gan(std::int64_t scale) : noise(torch::randn({4 * scale, 32, 1, 1})) {
    int in = 32;
    for (const int width : {32, 16}) {
      generator->push_back(nn::Sequential(
          nn::ConvTranspose2d(
              nn::ConvTranspose2dOptions(in, width, 4).stride(width == 32 ? 1 : 4).bias(false)),
          nn::BatchNorm2d(width), nn::ReLU(nn::ReLUOptions().inplace(true))));
      in = width;
    }
    generator->push_back(nn::Sequential(
        nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 3, 4).stride(2).padding(1)),
        nn::Tanh()));
    in = 3;
    for (const int width : {16, 32}) {
      discriminator->push_back(nn::Sequential(
          nn::Conv2d(nn::Conv2dOptions(in, width, 4).stride(2).padding(1)), nn::BatchNorm2d(width),
          nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2).inplace(true))));
      in = width;
    }
    discriminator->push_back(nn::Sequential(nn::Conv2d(nn::Conv2dOptions(32, 1, 8)),
                                            nn::Flatten(nn::FlattenOptions().start_dim(0))));
    register_module("generator", generator);
    register_module("discriminator", discriminator);
  }
  static at::Tensor through(const nn::ModuleList& stages, at::Tensor h, const RegionRunner& run) {
    for (const auto& stage : *stages) {
      h = run(stage->as<nn::Sequential>(), h);
    }
    return h;
  }
  at::Tensor loss(const RegionRunner& run) override {
    const at::Tensor verdict = through(discriminator, through(generator, noise, run), run);
    return F::binary_cross_entropy_with_logits(verdict, torch::ones_like(verdict));
  }
  nn::ModuleList generator, discriminator;
  at::Tensor noise;
};

// Convolutions at three resolutions with skip connections and a time step, after Ronneberger et al.
// 2015 and Ho et al. 2020.
struct UNet : Model {
  struct Block : nn::Module {
    Block(int in, int out)
        : conv1(register_module("conv1", nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1)))),
          conv2(register_module("conv2", nn::Conv2d(nn::Conv2dOptions(out, out, 3).padding(1)))),
          norm(register_module("norm", nn::GroupNorm(nn::GroupNormOptions(4, out)))),
          time(register_module("time", nn::Linear(32, out))) {}
    at::Tensor forward(const at::Tensor& x, const at::Tensor& t) {
      const at::Tensor h = torch::silu(conv1(x)) + time(t).unsqueeze(-1).unsqueeze(-1);
      return torch::silu(norm(conv2(h)));
    }
    nn::Conv2d conv1, conv2;
    nn::GroupNorm norm;
    nn::Linear time;
  };

  explicit UNet(std::int64_t scale) : images(torch::randn({2 * scale, 3, 32, 32})) {
    down1 = register_module("down1", std::make_shared<Block>(3, 16));
    down2 = register_module("down2", std::make_shared<Block>(16, 32));
    middle = register_module("middle", std::make_shared<Block>(32, 32));
    up2 = register_module("up2", std::make_shared<Block>(64, 16));
    up1 = register_module("up1", std::make_shared<Block>(32, 16));
    out = register_module("out", nn::Conv2d(nn::Conv2dOptions(16, 3, 1)));
    noise = torch::randn_like(images);
    times = torch::randn({images.size(0), 32});
  }
  at::Tensor loss(const RegionRunner& run) override {
    const auto twice = [](const at::Tensor& x) {
      return F::interpolate(x, F::InterpolateFuncOptions()
                                   .scale_factor(std::vector<double>{2, 2})
                                   .mode(torch::kNearest));
    };
    const at::Tensor a = run(down1, images + noise, times);
    const at::Tensor b = run(down2, torch::max_pool2d(a, 2), times);
    const at::Tensor c = run(middle, torch::max_pool2d(b, 2), times);
    const at::Tensor d = run(up2, torch::cat({twice(c), b}, 1), times);
    const at::Tensor e = run(up1, torch::cat({twice(d), a}, 1), times);
    return F::mse_loss(out(e), noise);
  }
  std::shared_ptr<Block> down1, down2, middle, up2, up1;
  nn::Conv2d out{nullptr};
  at::Tensor images, noise, times;
};

}  // namespace

std::vector<Kind> generative_kinds() {
  return {kind_of<Vae>("vae", "linear encoder and decoder, noise between"),
          kind_of<Gan>("gan", "transposed convolutions, leaky ReLU in place"),
          kind_of<UNet>("unet", "diffusion U-Net: skip connections, group norm")};
}

}  // namespace reprise::zoo
