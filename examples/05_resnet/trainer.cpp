// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "reprise/engine/apply_checkpointing.h"
#include "reprise/engine/cpu_memory.h"

namespace resnet {
namespace {

constexpr double kMean = 0.286;  // of Fashion-MNIST's pixels
constexpr double kDeviation = 0.353;
constexpr double kMomentum = 0.9;
constexpr double kWeightDecay = 5e-4;
constexpr double kWarmUpShare = 0.2;

ResNet make_model(const Options& options) {
  torch::manual_seed(static_cast<std::uint64_t>(options.seed));
  return ResNet(options);
}

torch::optim::SGDOptions optimizer_options(const Options& options) {
  return torch::optim::SGDOptions(options.rate)
      .momentum(kMomentum)
      .weight_decay(kWeightDecay)
      .nesterov(true);
}

torch::Tensor normalized(const torch::Tensor& images) {
  return images.to(torch::kFloat32).div_(255).sub_(kMean).div_(kDeviation);
}

std::vector<std::byte> bytes_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<std::byte> bytes;
  for (const torch::Tensor& tensor : tensors) {
    const torch::Tensor contiguous = tensor.contiguous();
    const auto* data = static_cast<const std::byte*>(contiguous.const_data_ptr());
    bytes.insert(bytes.end(), data, data + contiguous.nbytes());
  }
  return bytes;
}

}  // namespace

Trainer::Trainer(const Options& options, const ImageSet& images)
    : options_(options),
      images_(images),
      model_(make_model(options)),
      optimizer_(model_->parameters(), optimizer_options(options)),
      generator_(at::detail::createCPUGenerator(static_cast<std::uint64_t>(options.seed))) {}

void Trainer::checkpoint_blocks() {
  reprise::apply_checkpointing(*model_, reprise::modules_named({"ResidualBlock"}));
}

Epoch Trainer::run_epoch(const ImageSet& test, Progress& progress) {
  Epoch epoch;
  const auto start = std::chrono::steady_clock::now();
  const torch::Tensor order = torch::randperm(images_.size(), generator_, torch::kInt64);
  for (std::int64_t first = 0; first + options_.batch <= order.size(0); first += options_.batch) {
    run_step(order.narrow(0, first, options_.batch), epoch);
    progress.finish_step();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  epoch.train_seconds = elapsed.count();
  epoch.accuracy = accuracy(test);
  return epoch;
}

void Trainer::run_step(const torch::Tensor& places, Epoch& epoch) {
  optimizer_.zero_grad(/*set_to_none=*/true);
  const torch::Tensor images = flip_at_random(normalized(images_.images.index_select(0, places)));
  const torch::Tensor labels = images_.labels.index_select(0, places);
  const std::int64_t before = reprise::cpu_memory().current_bytes;
  reprise::reset_peak_cpu_memory();
  const torch::Tensor mean_loss = loss(images, labels);
  const std::int64_t kept = reprise::cpu_memory().current_bytes - before;
  mean_loss.backward();
  const std::int64_t peak = reprise::cpu_memory().peak_bytes - before;
  epoch.bytes_before = std::max(epoch.bytes_before, before);
  epoch.kept_bytes = std::max(epoch.kept_bytes, kept);
  epoch.peak_bytes = std::max(epoch.peak_bytes, peak);
  epoch.losses.push_back(mean_loss.item<double>());
  for (auto& group : optimizer_.param_groups()) {
    group.options().set_lr(learning_rate());
  }
  optimizer_.step();
  ++steps_done_;
}

void Trainer::try_step(std::int64_t batch, reprise::MemoryBudget* budget) {
  optimizer_.zero_grad(/*set_to_none=*/true);
  const torch::Tensor images = normalized(images_.images.narrow(0, 0, batch));
  std::optional<reprise::BudgetScope> scope;
  if (budget != nullptr) {
    scope.emplace(*budget);
  }
  const torch::Tensor mean_loss = loss(images, images_.labels.narrow(0, 0, batch));
  if (scope) {
    std::move(*scope).close();
  }
  mean_loss.backward();
}

torch::Tensor Trainer::loss(const torch::Tensor& images, const torch::Tensor& labels) {
  return torch::nn::functional::cross_entropy(model_(images), labels);
}

torch::Tensor Trainer::flip_at_random(const torch::Tensor& images) {
  const torch::Tensor is_flipped =
      torch::rand({images.size(0), 1, 1, 1}, generator_, torch::kFloat32) < 0.5;
  return torch::where(is_flipped, images.flip(3), images);
}

double Trainer::accuracy(const ImageSet& test) {
  const torch::NoGradGuard no_grad;
  model_->eval();
  std::int64_t right = 0;
  for (std::int64_t first = 0; first < test.size(); first += options_.batch) {
    const std::int64_t count = std::min(options_.batch, test.size() - first);
    const torch::Tensor logits = model_(normalized(test.images.narrow(0, first, count)));
    right += (logits.argmax(1) == test.labels.narrow(0, first, count)).sum().item<std::int64_t>();
  }
  model_->train();
  return static_cast<double>(right) / static_cast<double>(test.size());
}

// A rise, then half a cosine down to nothing.
double Trainer::learning_rate() const {
  const auto total = static_cast<double>(options_.epochs * (images_.size() / options_.batch));
  const auto done = static_cast<double>(steps_done_);
  const double warm_up = std::max(1.0, kWarmUpShare * total);
  if (done < warm_up) {
    return options_.rate * (done + 1) / warm_up;
  }
  const double progress = (done - warm_up) / std::max(1.0, total - warm_up);
  return options_.rate * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

std::vector<std::byte> Trainer::parameter_bytes() const { return bytes_of(model_->parameters()); }

std::vector<std::byte> Trainer::statistics_bytes() const { return bytes_of(model_->buffers()); }

std::int64_t Trainer::parameters() const {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model_->parameters()) {
    count += parameter.numel();
  }
  return count;
}

}  // namespace resnet
