// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "trainer.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <random>

#include "model.h"
#include "reprise/hooks/store_guard.h"
#include "store_row.h"

namespace char_gpt {
namespace {

constexpr double kTemperature = 0.8;
constexpr double kWarmUpShare = 0.05;
constexpr double kFinalShareOfRate = 0.1;
constexpr double kWeightDecay = 0.1;

ModelConfig model_config(const Options& options, const TextData& text) {
  return {.vocabulary = text.vocabulary(),
          .context = options.context,
          .width = options.width,
          .heads = options.heads,
          .layers = options.layers,
          .dropout = options.dropout,
          .fused = options.fused};
}

torch::optim::AdamWOptions optimizer_options(const Options& options) {
  return torch::optim::AdamWOptions(options.learning_rate)
      .betas({0.9, 0.95})
      .weight_decay(kWeightDecay);
}

}  // namespace

struct Trainer::State {
  Gpt model;
  torch::optim::AdamW optimizer;
  std::mt19937_64 batch_generator;
  torch::Tensor inputs = {};
  torch::Tensor targets = {};
};

Trainer::Trainer(const Options& options, const TextData& text, reprise::MemoryBudget* budget)
    : options_(options),
      text_(text),
      budget_(budget),
      device_(options.device == "cuda" ? "cuda:0" : "cpu") {
  const auto seed = static_cast<std::uint64_t>(options.seed);
  torch::manual_seed(seed);
  Gpt model(model_config(options, text));
  model->to(device_);
  torch::optim::AdamW optimizer(model->parameters(), optimizer_options(options));
  state_ =
      std::make_unique<State>(State{std::move(model), std::move(optimizer), std::mt19937_64(seed)});
}

Trainer::~Trainer() = default;

double Trainer::step(const Variant& variant) {
  begin_step();
  const torch::Tensor loss = forward(variant);
  loss.backward();
  update();
  return loss.item<double>();
}

void Trainer::begin_step() {
  state_->optimizer.zero_grad(/*set_to_none=*/true);
  const Batch batch = text_.draw(options_.batch, state_->batch_generator);
  const auto to_device = [&](const std::vector<std::int64_t>& tokens) {
    return torch::tensor(tokens, torch::kInt64)
        .view({options_.batch, options_.context})
        .to(device_);
  };
  state_->inputs = to_device(batch.inputs);
  state_->targets = to_device(batch.targets);
}

at::Tensor Trainer::forward(const Variant& variant) {
  if (variant.is_budgeted) {
    const reprise::BudgetScope scope(*budget_);
    return loss(variant);
  }
  std::optional<reprise::StoreGuard> offloading;
  if (variant.offloads) {
    store_ = store_ == nullptr ? make_store(options_) : store_;
    offloading.emplace(store_);
  }
  return loss(variant);
}

at::Tensor Trainer::loss(const Variant& variant) {
  const torch::Tensor logits = state_->model->forward(state_->inputs, variant.run_block);
  return torch::nn::functional::cross_entropy(logits.flatten(0, 1), state_->targets.flatten());
}

void Trainer::update() {
  const double rate = learning_rate();
  for (auto& group : state_->optimizer.param_groups()) {
    group.options().set_lr(rate);
  }
  state_->optimizer.step();
  ++steps_done_;
}

std::vector<at::Tensor> Trainer::parameters() const { return state_->model->parameters(); }

// A short rise, then half a cosine down to a tenth.
double Trainer::learning_rate() const {
  const auto total = static_cast<double>(options_.steps);
  const auto done = static_cast<double>(steps_done_);
  const double warm_up = std::max(1.0, kWarmUpShare * total);
  if (done < warm_up) {
    return options_.learning_rate * (done + 1) / warm_up;
  }
  const double progress = std::min(1.0, (done - warm_up) / std::max(1.0, total - warm_up));
  const double cosine = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return options_.learning_rate * (kFinalShareOfRate + (1 - kFinalShareOfRate) * cosine);
}

std::string Trainer::write_sample(std::int64_t length) {
  const torch::NoGradGuard no_grad;
  state_->model->eval();
  const Variant& plain = all_variants().front();
  std::string sample;
  torch::Tensor tokens = torch::full({1, 1}, text_.encode('\n'), torch::kInt64).to(device_);
  for (std::int64_t i = 0; i < length; ++i) {
    const torch::Tensor logits = state_->model->forward(tokens, plain.run_block).select(1, -1);
    const torch::Tensor next = torch::multinomial(torch::softmax(logits / kTemperature, -1), 1);
    sample += text_.decode(next.item<std::int64_t>());
    tokens = torch::cat({tokens, next}, 1);
    const std::int64_t excess = std::max<std::int64_t>(0, tokens.size(1) - options_.context);
    tokens = tokens.narrow(1, excess, tokens.size(1) - excess);
  }
  state_->model->train();
  return sample;
}

bool is_device_available(const std::string& device) {
  return device != "cuda" || torch::cuda::is_available();
}

void synchronize(const c10::Device& device) {
  if (device.is_cuda()) {
    torch::cuda::synchronize(device.index());
  }
}

}  // namespace char_gpt
