// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/zoo/zoo.h"

namespace reprise::zoo {
namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

// A radiance field with volume rendering, after Mildenhall et al. 2020.
struct Nerf : Model {
  explicit Nerf(std::int64_t scale) : rays(torch::randn({8 * scale, 32, 3})) {
    for (int i = 0; i < 8; ++i) {
      const int in = i == 0 ? 39 : i == 4 ? 64 + 39 : 64;
      layers->push_back(nn::Linear(in, 64));
    }
    register_module("layers", layers);
    density = register_module("density", nn::Linear(64, 1));
    color = register_module("color", nn::Linear(64, 3));
    pixels = torch::rand({rays.size(0), 3});
  }
  static at::Tensor encode(const at::Tensor& x) {
    std::vector<at::Tensor> parts = {x};
    for (int i = 0; i < 6; ++i) {
      parts.push_back(torch::sin(x * (1 << i)));
      parts.push_back(torch::cos(x * (1 << i)));
    }
    return torch::cat(parts, -1);
  }
  std::tuple<at::Tensor, at::Tensor> field(const at::Tensor& points) {
    const at::Tensor encoded = encode(points);
    at::Tensor h = encoded;
    for (std::size_t i = 0; i < layers->size(); ++i) {
      h = torch::relu(
          layers[i]->as<nn::Linear>()->forward(i == 4 ? torch::cat({h, encoded}, -1) : h));
    }
    return {torch::relu(density(h)), torch::sigmoid(color(h))};
  }
  at::Tensor loss(const RegionRunner& run) override {
    const auto [sigma, rgb] = run([this](const at::Tensor& x) { return field(x); }, rays);
    const auto render = [](const at::Tensor& s, const at::Tensor& c) {
      const at::Tensor alpha = 1 - torch::exp(-s.squeeze(-1) * 0.1);
      const at::Tensor clear = torch::cumprod(1 - alpha + 1e-10, -1);
      return ((alpha * clear).unsqueeze(-1) * c).sum(1);
    };
    return F::mse_loss(run(render, sigma, rgb), pixels);
  }
  nn::ModuleList layers;
  nn::Linear density{nullptr}, color{nullptr};
  at::Tensor rays, pixels;
};

// Gaussians projected, sorted by depth and blended, after Kerbl et al. 2023.
struct Splatting : Model {
  explicit Splatting(std::int64_t scale) : count(32 * scale) {
    centers = register_parameter("centers", torch::rand({count, 3}));
    log_widths = register_parameter("log_widths", torch::randn({count}) * 0.1 - 2);
    colors = register_parameter("colors", torch::rand({count, 3}));
    opacities = register_parameter("opacities", torch::randn({count}));
    const at::Tensor axis = torch::linspace(0, 1, 16);
    pixels = torch::stack(torch::meshgrid({axis, axis}, "ij"), -1).reshape({256, 2});
    target = torch::rand({256, 3});
  }
  at::Tensor render(const at::Tensor& rows) {
    const at::Tensor order = centers.select(1, 2).argsort();
    const at::Tensor at = centers.index_select(0, order);
    const at::Tensor squared = (rows.unsqueeze(1) - at.narrow(1, 0, 2).unsqueeze(0)).pow(2).sum(-1);
    const at::Tensor width = log_widths.index_select(0, order).exp();
    const at::Tensor alpha = opacities.index_select(0, order).sigmoid() *
                             torch::exp(-squared / (2 * width * width)) * 0.99;
    const at::Tensor clear = torch::cumprod(1 - alpha, 1) / (1 - alpha);
    return (alpha * clear).matmul(colors.index_select(0, order).sigmoid());
  }
  at::Tensor loss(const RegionRunner& run) override {
    std::vector<at::Tensor> image;
    for (const at::Tensor& rows : pixels.chunk(4)) {
      image.push_back(run([this](const at::Tensor& part) { return render(part); }, rows));
    }
    return (torch::cat(image) - target).abs().mean();
  }
  std::int64_t count;
  at::Tensor centers, log_widths, colors, opacities, pixels, target;
};

}  // namespace

std::vector<Kind> rendering_kinds() {
  return {kind_of<Nerf>("nerf", "radiance field with a skip, volume rendering"),
          kind_of<Splatting>("splatting", "Gaussians sorted and blended, a region per tile")};
}

}  // namespace reprise::zoo
