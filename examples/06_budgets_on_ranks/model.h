// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: model.h
//
// Residual layers with dropout, alike in all processes, and the results of training to compare.
#ifndef BUDGETS_ON_RANKS_MODEL_H_
#define BUDGETS_ON_RANKS_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

#include "options.h"

namespace budgets_on_ranks {

enum class Form { kPlain, kRegions, kBudget };

struct LayerImpl : torch::nn::Module {
  explicit LayerImpl(std::int64_t width);
  torch::Tensor forward(const torch::Tensor& h);

  torch::nn::LayerNorm norm;
  torch::nn::Linear linear;
};
TORCH_MODULE(Layer);

// Some consecutive layers of the model, the same ones in each process that makes them.
class Layers {
 public:
  Layers(const Options& options, std::int64_t first, std::int64_t count);

  // (rows, width) float. With kRegions, a region per layer.
  torch::Tensor forward(torch::Tensor h, Form form);
  std::vector<torch::Tensor> parameters() const;

 private:
  std::vector<Layer> layers_;
};

// Of a batch, or of a micro-batch: numbers that depend on both arguments alone.
torch::Tensor make_batch(const Options& options, std::int64_t step, std::int64_t part);
// The loss of the last layer's result.
torch::Tensor loss_of(const torch::Tensor& h);
// Seeds dropout, for one part of the model in one part of the batch.
void seed_dropout(std::int64_t step, std::int64_t part, std::int64_t stage = 0);

torch::optim::SGD make_optimizer(const std::vector<torch::Tensor>& parameters);
// For Optimizer::zero_grad(), which cannot detach gradients that are views of a Reducer's buckets.
void drop_gradients(const std::vector<torch::Tensor>& parameters);

// Of a training run on one rank.
struct Outcome {
  std::vector<double> losses;
  std::vector<torch::Tensor> parameters;  // after the last step
  std::int64_t growth_bytes = 0;          // most in use in a step, beyond those before it
  bool is_within_budget = true;
};

bool have_same_bits(const Outcome& one, const Outcome& other);

// The line of a run, with the most bytes of any rank.
std::string line_of(const std::string& name, std::int64_t growth_bytes, bool is_same);

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_MODEL_H_
