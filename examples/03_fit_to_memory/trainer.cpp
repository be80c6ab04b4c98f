// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "trainer.h"

#include <cstdint>
#include <utility>

namespace fit_to_memory {
namespace {

constexpr double kDropout = 0.1;
constexpr double kLearningRate = 0.05;
constexpr std::uint64_t kSeed = 1;

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(std::int64_t width)
      : norm(register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}))),
        linear(register_module("linear", torch::nn::Linear(width, width))) {}

  torch::Tensor forward(const torch::Tensor& h) {
    return h + torch::dropout(torch::gelu(linear(norm(h))), kDropout, is_training());
  }

  torch::nn::LayerNorm norm;
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

torch::nn::Sequential make_model(const Options& options) {
  torch::manual_seed(kSeed);
  torch::nn::Sequential model;
  for (std::int64_t i = 0; i < options.layers; ++i) {
    model->push_back(Layer(options.width));
  }
  model->push_back(torch::nn::LayerNorm(std::vector<std::int64_t>{options.width}));
  model->push_back(torch::nn::Linear(options.width, 1));
  return model;
}

}  // namespace

// SGD retains nothing between steps, so that each begins with the same bytes in use.
Trainer::Trainer(const Options& options)
    : model_(make_model(options)),
      optimizer_(model_->parameters(), kLearningRate),
      inputs_(torch::randn({options.batch, options.width})),
      targets_(2 * inputs_.narrow(1, 0, 1).sin()) {}

void Trainer::begin_step() { optimizer_.zero_grad(/*set_to_none=*/true); }

torch::Tensor Trainer::forward() { return torch::mse_loss(model_->forward(inputs_), targets_); }

double Trainer::differentiate() {
  const torch::Tensor loss = forward();
  loss.backward();
  return loss.item<double>();
}

double Trainer::differentiate_within(reprise::MemoryBudget& budget) {
  reprise::BudgetScope scope(budget);
  const torch::Tensor loss = forward();
  std::move(scope).close();
  loss.backward();
  return loss.item<double>();
}

void Trainer::update() { optimizer_.step(); }

void Trainer::append_gradients(std::vector<std::byte>& bytes) const {
  for (const torch::Tensor& parameter : model_->parameters()) {
    const torch::Tensor gradient = parameter.grad().contiguous();
    const auto* data = static_cast<const std::byte*>(gradient.const_data_ptr());
    bytes.insert(bytes.end(), data, data + gradient.nbytes());
  }
}

}  // namespace fit_to_memory
