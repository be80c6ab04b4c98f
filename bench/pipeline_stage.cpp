// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/pipeline_stage.h"

#include <chrono>
#include <cmath>
#include <deque>
#include <optional>
#include <utility>

#include "examples/06_budgets_on_ranks/one_forward_one_backward.h"
#include "reprise/engine/cpu_memory.h"

namespace reprise::bench {

StageLinks::StageLinks(const c10::intrusive_ptr<c10d::ProcessGroup>& group, StagePlace place,
                       std::vector<std::int64_t> sizes)
    : place_(place), sizes_(std::move(sizes)) {
  if (group) {
    links_.emplace(group, sizes_);
  }
}

at::Tensor StageLinks::receive_input(int micro_batch) {
  if (links_ && !place_.is_first()) {
    return links_->receive_input();
  }
  const std::int64_t numel = c10::multiply_integers(sizes_);
  return torch::linspace(0.1 * (micro_batch + 1), 1, numel).view(sizes_);
}

at::Tensor StageLinks::receive_gradient() {
  return links_ ? links_->receive_gradient() : torch::ones(sizes_);
}

void StageLinks::send_output(const at::Tensor& output) {
  if (links_) {
    links_->send_output(output);
  }
}

void StageLinks::send_gradient(const at::Tensor& gradient) {
  if (links_) {
    links_->send_gradient(gradient);
  }
}

void StageLinks::finish() {
  if (links_) {
    links_->finish();
  }
}

PipelineStage::PipelineStage(const StageOptions& options, StageLinks links)
    : options_(options), links_(std::move(links)) {
  torch::manual_seed(3 + static_cast<std::uint64_t>(links_.place().number));
  const double scale = 1 / std::sqrt(static_cast<double>(options.width));
  for (int i = 0; i < options.layers; ++i) {
    weights_.push_back((torch::randn({options.width, options.width}) * scale).requires_grad_());
  }
}

at::Tensor PipelineStage::layers(at::Tensor h) const {
  for (const at::Tensor& weight : weights_) {
    h = h + torch::dropout(torch::gelu(h.matmul(weight)), 0.2, /*train=*/true);
  }
  return links_.place().is_last() ? h.square().mean() : h;
}

PipelineStage::MicroBatch PipelineStage::forward(int number, MemoryBudget* budget) {
  MicroBatch micro_batch{.input = links_.receive_input(number), .output = {}};
  micro_batch.input.requires_grad_(!links_.place().is_first());
  {
    std::optional<BudgetScope> scope;
    if (budget != nullptr) {
      scope.emplace(*budget);
    }
    micro_batch.output = layers(micro_batch.input);
  }
  if (!links_.place().is_last()) {
    links_.send_output(micro_batch.output.detach());
  }
  return micro_batch;
}

void PipelineStage::backward(MicroBatch micro_batch) {
  at::Tensor gradient;
  if (!links_.place().is_last()) {
    gradient = links_.receive_gradient();
  }
  micro_batch.output.backward(gradient);
  if (!links_.place().is_first()) {
    links_.send_gradient(micro_batch.input.grad());
  }
}

ScheduleRun PipelineStage::run(MemoryBudget* budget) {
  forget_gradients();
  torch::manual_seed(5 + static_cast<std::uint64_t>(links_.place().number));
  ScheduleRun found;
  const std::int64_t before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  const auto start = std::chrono::steady_clock::now();
  std::deque<MicroBatch> waiting;
  int number = 0;
  for (const char next :
       budgets_on_ranks::one_forward_one_backward(options_.micro_batches, options_.in_flight)) {
    if (next == 'F') {
      waiting.push_back(forward(number++, budget));
      continue;
    }
    backward(std::exchange(waiting.front(), {}));
    waiting.pop_front();
    if (budget != nullptr) {
      found.steps.push_back(*budget->last_step());
    }
  }
  links_.finish();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  found.seconds = time.count();
  found.peak_bytes = cpu_memory().peak_bytes;
  found.growth_bytes = found.peak_bytes - before;
  return found;
}

std::vector<at::Tensor> PipelineStage::gradients() const {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& weight : weights_) {
    gradients.push_back(weight.grad().clone());
  }
  return gradients;
}

void PipelineStage::forget_gradients() {
  for (const at::Tensor& weight : weights_) {
    weight.mutable_grad().reset();
  }
}

}  // namespace reprise::bench
