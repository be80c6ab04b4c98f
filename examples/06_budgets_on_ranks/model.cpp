// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "model.h"

#include <algorithm>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <utility>

#include "reprise/engine/checkpoint.h"

namespace budgets_on_ranks {
namespace {

constexpr double kDropout = 0.1;
constexpr double kLearningRate = 0.05;

bool have_same_bytes(const torch::Tensor& one, const torch::Tensor& other) {
  return one.sizes() == other.sizes() &&
         std::memcmp(one.const_data_ptr(), other.const_data_ptr(), one.nbytes()) == 0;
}

}  // namespace

LayerImpl::LayerImpl(std::int64_t width)
    : norm(register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{width}))),
      linear(register_module("linear", torch::nn::Linear(width, width))) {}

torch::Tensor LayerImpl::forward(const torch::Tensor& h) {
  return h + torch::dropout(torch::gelu(linear(norm(h))), kDropout, is_training());
}

Layers::Layers(const Options& options, std::int64_t first, std::int64_t count) {
  for (std::int64_t i = first; i < first + count; ++i) {
    torch::manual_seed(static_cast<std::uint64_t>(i));
    layers_.emplace_back(options.width);
  }
}

torch::Tensor Layers::forward(torch::Tensor h, Form form) {
  for (Layer& layer : layers_) {
    h = form == Form::kRegions ? reprise::checkpoint(layer, h) : layer(h);
  }
  return h;
}

std::vector<torch::Tensor> Layers::parameters() const {
  std::vector<torch::Tensor> parameters;
  for (const Layer& layer : layers_) {
    for (const torch::Tensor& parameter : layer->parameters()) {
      parameters.push_back(parameter);
    }
  }
  return parameters;
}

torch::Tensor make_batch(const Options& options, std::int64_t step, std::int64_t part) {
  const double start = 0.1 * static_cast<double>(part + 1) + 0.01 * static_cast<double>(step);
  return torch::linspace(start, 1, options.rows * options.width)
      .view({options.rows, options.width});
}

torch::Tensor loss_of(const torch::Tensor& h) { return (h - 1).square().mean(); }

void seed_dropout(std::int64_t step, std::int64_t part, std::int64_t stage) {
  torch::manual_seed(static_cast<std::uint64_t>((step * 1000 + part) * 1000 + stage));
}

// SGD retains nothing between steps, so that each begins with the same bytes in use.
torch::optim::SGD make_optimizer(const std::vector<torch::Tensor>& parameters) {
  return torch::optim::SGD(parameters, torch::optim::SGDOptions(kLearningRate));
}

void drop_gradients(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) {
    parameter.mutable_grad().reset();
  }
}

bool have_same_bits(const Outcome& one, const Outcome& other) {
  return one.losses == other.losses &&
         std::equal(one.parameters.begin(), one.parameters.end(), other.parameters.begin(),
                    other.parameters.end(), have_same_bytes);
}

std::string line_of(const std::string& name, std::int64_t growth_bytes, bool is_same) {
  std::ostringstream line;
  line << "  " << std::left << std::setw(8) << name << std::right << std::fixed
       << std::setprecision(2) << std::setw(9) << static_cast<double>(growth_bytes) / (1 << 20)
       << " MiB beyond those before a step   losses and parameters: "
       << (is_same ? "bitwise equal" : "DIFFERENT");
  return line.str();
}

}  // namespace budgets_on_ranks
