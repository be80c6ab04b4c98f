// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "fine_tuning.h"

#include <optional>
#include <utility>

#include "pretraining.h"

namespace llama_lora {
namespace {

std::vector<torch::Tensor> adapt_and_freeze(Llama& model, const Options& options) {
  torch::manual_seed(static_cast<std::uint64_t>(options.seed));
  model->adapt(options.rank);
  for (const torch::Tensor& parameter : model->base_parameters()) {
    parameter.requires_grad_(false);
  }
  return model->adapter_parameters();
}

torch::optim::AdamWOptions optimizer_options(const Options& options) {
  return torch::optim::AdamWOptions(options.rate).weight_decay(0);
}

}  // namespace

FineTuning::FineTuning(Llama model, const Text& text, const Options& options)
    : model_(std::move(model)),
      text_(text),
      batch_(options.batch),
      adapters_(adapt_and_freeze(model_, options)),
      optimizer_(adapters_, optimizer_options(options)),
      batch_generator_(
          at::detail::createCPUGenerator(static_cast<std::uint64_t>(options.seed) + 1)) {
  // An update by gradients of zero changes no adapter, and allocates the optimiser's state: the
  // first step then begins with the bytes of the others.
  for (const torch::Tensor& adapter : adapters_) {
    adapter.mutable_grad() = torch::zeros_like(adapter);
  }
  optimizer_.step();
}

void FineTuning::begin_step() {
  optimizer_.zero_grad(/*set_to_none=*/true);
  tokens_ = text_.draw(batch_, batch_generator_);
}

torch::Tensor FineTuning::forward(const Variant& variant, reprise::MemoryBudget* budget) {
  std::optional<reprise::BudgetScope> scope;
  if (variant.is_budgeted) {
    scope.emplace(*budget);
  }
  const torch::Tensor loss = language_loss(model_, tokens_, variant.run_block);
  if (scope) {
    std::move(*scope).close();
  }
  return loss;
}

void FineTuning::update() { optimizer_.step(); }

void FineTuning::append_gradients(std::vector<std::byte>& bytes) const {
  for (const torch::Tensor& adapter : adapters_) {
    const torch::Tensor gradient = adapter.grad().contiguous();
    const auto* data = static_cast<const std::byte*>(gradient.const_data_ptr());
    bytes.insert(bytes.end(), data, data + gradient.nbytes());
  }
}

double FineTuning::held_out_loss() {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (const torch::Tensor& sequences : text_.held_out().split(batch_)) {
    const torch::Tensor loss = language_loss(model_, sequences, all_variants().front().run_block);
    sum += loss.item<double>() * static_cast<double>(sequences.size(0));
  }
  return sum / static_cast<double>(text_.held_out().size(0));
}

std::int64_t FineTuning::trained_parameters() const {
  std::int64_t count = 0;
  for (const torch::Tensor& adapter : adapters_) {
    count += adapter.numel();
  }
  return count;
}

}  // namespace llama_lora
