// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "trainer.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "reprise/engine/cpu_memory.h"
#include "reprise/rng/rng_state_tracker.h"

namespace tensor_parallel_gpt {
namespace {

constexpr double kLearningRate = 2e-3;

struct DeviceBytes {
  std::int64_t current = 0;
  std::int64_t peak = 0;
};

DeviceBytes device_bytes(const c10::Device& device) {
  if (device.is_cpu()) {
    // Gloo's threads let go of a tensor some time after its collective has ended.
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const reprise::CpuMemory memory = reprise::cpu_memory();
    return {memory.current_bytes, memory.peak_bytes};
  }
  synchronize(device);
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto bytes = at::accelerator::getDeviceStats(device.index()).allocated_bytes[kAll];
  return {bytes.current, bytes.peak};
}

void reset_peak(const c10::Device& device) {
  if (device.is_cpu()) {
    reprise::reset_peak_cpu_memory();
  } else {
    at::accelerator::resetPeakStats(device.index());
  }
}

Gpt make_model(const Options& options, const Ranks& ranks) {
  reprise::model_parallel_manual_seed(static_cast<std::uint64_t>(options.seed), ranks.rank);
  Gpt model(options, ranks);
  model->to(ranks.device);
  return model;
}

}  // namespace

std::string load_text(const Options& options) {
  std::ifstream in(options.text, std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.size() <= static_cast<std::size_t>(options.context)) {
    throw UsageError("'" + options.text + "' has " + std::to_string(text.size()) +
                     " bytes to read; --text wants a file with more than --context " +
                     std::to_string(options.context));
  }
  return text;
}

Trainer::Trainer(const Options& options, const std::string& text, const Ranks& ranks)
    : options_(options),
      text_(text),
      ranks_(ranks),
      model_(make_model(options, ranks)),
      optimizer_(model_->parameters(), torch::optim::AdamWOptions(kLearningRate)),
      batch_generator_(static_cast<std::uint64_t>(options.seed)) {}

double Trainer::differentiate(const Variant& variant, StepBytes* bytes) {
  optimizer_.zero_grad(/*set_to_none=*/true);
  const at::Tensor batch = draw_batch().to(ranks_.device);
  if (bytes == nullptr) {
    const at::Tensor loss = forward(batch, variant, nullptr);
    loss.backward();
    return loss.item<double>();
  }
  const std::int64_t before = device_bytes(ranks_.device).current;
  reset_peak(ranks_.device);
  const at::Tensor loss = forward(batch, variant, bytes);
  bytes->kept = device_bytes(ranks_.device).current - before;
  loss.backward();
  bytes->peak = device_bytes(ranks_.device).peak;
  return loss.item<double>();
}

void Trainer::update() { optimizer_.step(); }

// (batch, context + 1) int64: sequences from random places, each with the byte that follows it.
at::Tensor Trainer::draw_batch() {
  const std::size_t places = text_.size() - static_cast<std::size_t>(options_.context);
  std::vector<std::int64_t> tokens;
  for (std::int64_t i = 0; i < options_.batch; ++i) {
    const auto start = text_.begin() + static_cast<std::ptrdiff_t>(batch_generator_() % places);
    std::transform(start, start + options_.context + 1, std::back_inserter(tokens),
                   [](char byte) { return static_cast<unsigned char>(byte); });
  }
  return torch::tensor(tokens, torch::kInt64).view({options_.batch, -1});
}

at::Tensor Trainer::forward(const at::Tensor& batch, const Variant& variant, StepBytes* bytes) {
  at::Tensor h = model_->embed(batch.narrow(1, 0, options_.context));
  // h counts before and after: as the first block's input, and as the last one's output.
  const std::int64_t before = bytes != nullptr ? device_bytes(ranks_.device).current : 0;
  h = model_->run_blocks(std::move(h), variant.run_block);
  if (bytes != nullptr) {
    bytes->blocks = device_bytes(ranks_.device).current - before;
  }
  return torch::nn::functional::cross_entropy(model_->logits(h).flatten(0, 1),
                                              batch.narrow(1, 1, options_.context).flatten());
}

void synchronize(const c10::Device& device) {
  if (!device.is_cpu()) {
    at::accelerator::synchronizeDevice(device.index());
  }
}

}  // namespace tensor_parallel_gpt
