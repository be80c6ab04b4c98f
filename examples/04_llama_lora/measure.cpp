// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "measure.h"

#include <algorithm>
#include <chrono>

#include "pretraining.h"
#include "reprise/engine/cpu_memory.h"

namespace llama_lora {
namespace {

// Runs forward, which returns the loss, and backward.
template <class Forward>
void observe_step(Measurement& result, const Forward& forward) {
  result.bytes_before = reprise::cpu_memory().current_bytes;
  reprise::reset_peak_cpu_memory();
  const torch::Tensor loss = forward();
  const std::int64_t kept = reprise::cpu_memory().current_bytes - result.bytes_before;
  loss.backward();
  const std::int64_t peak = reprise::cpu_memory().peak_bytes - result.bytes_before;
  result.kept_bytes = std::max(result.kept_bytes, kept);
  result.peak_bytes = std::max(result.peak_bytes, peak);
  result.losses.push_back(loss.item<double>());
}

}  // namespace

Measurement measure_steps(const Llama& model, const Text& text, const Options& options,
                          const Variant& variant, reprise::MemoryBudget* budget,
                          Progress& progress) {
  FineTuning tuning(model, text, options);
  Measurement result;
  result.variant = &variant;
  for (std::int64_t step = 0; step < options.measure_steps; ++step) {
    tuning.begin_step();
    observe_step(result, [&] { return tuning.forward(variant, budget); });
    if (step == 0 || step + 1 == options.measure_steps) {
      tuning.append_gradients(result.gradients);
    }
    tuning.update();
    progress.finish_step();
  }
  return result;
}

Measurement measure_full_training(Llama model, const Text& text, const Options& options,
                                  const Variant& variant) {
  const torch::Tensor tokens = text.draw(
      options.batch, at::detail::createCPUGenerator(static_cast<std::uint64_t>(options.seed)));
  Measurement result;
  result.variant = &variant;
  observe_step(result, [&] { return language_loss(model, tokens, variant.run_block); });
  model->zero_grad();
  return result;
}

void measure_times(FineTuning& tuning, const Options& options,
                   std::vector<Measurement>& measurements, reprise::MemoryBudget* budget) {
  Progress progress("fine-tuning", options.steps);
  for (std::int64_t step = 0; step < options.steps; ++step) {
    Measurement& measurement = measurements[static_cast<std::size_t>(step) % measurements.size()];
    const auto start = std::chrono::steady_clock::now();
    tuning.begin_step();
    const torch::Tensor loss = tuning.forward(*measurement.variant, budget);
    loss.backward();
    tuning.update();
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    measurement.step_ms.push_back(elapsed.count());
    progress.finish_step(loss.item<double>());
  }
}

}  // namespace llama_lora
