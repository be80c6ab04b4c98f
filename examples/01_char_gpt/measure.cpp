// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "measure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>

#include "memory.h"
#include "step_budget.h"
#include "trainer.h"

namespace char_gpt {
namespace {

// The first two steps of a budget are recorded, the next one plans with the times of the second.
constexpr int kBudgetWarmUp = 3;

void append_gradients(const Trainer& trainer, std::vector<std::byte>& gradients) {
  for (const at::Tensor& parameter : trainer.parameters()) {
    const at::Tensor gradient = parameter.grad().cpu().contiguous();
    const auto* bytes = static_cast<const std::byte*>(gradient.const_data_ptr());
    gradients.insert(gradients.end(), bytes, bytes + gradient.nbytes());
  }
}

// Forward and backward of one step.
void run_and_watch(Trainer& trainer, Measurement& result) {
  trainer.begin_step();
  synchronize(trainer.device());
  result.state_bytes = current_bytes(trainer.device());
  reset_peak_bytes(trainer.device());
  LiveBytesRecorder recorder(trainer.device());
  const at::Tensor loss = trainer.forward(*result.variant);
  const LiveSample after_forward = recorder.sample();
  loss.backward();
  const LiveSample end = recorder.sample();
  result.kept_bytes = after_forward.bytes;
  result.peak_bytes = peak_bytes(trainer.device());
  if (result.curve.empty() || end.time_ms < result.curve.back().time_ms) {
    result.curve = recorder.samples();
    result.after_forward = after_forward;
  }
  result.losses.push_back(loss.item<double>());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) {
    return *middle;
  }
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double timed_step_ms(Trainer& trainer, const Variant& variant) {
  synchronize(trainer.device());
  const auto start = std::chrono::steady_clock::now();
  trainer.step(variant);
  synchronize(trainer.device());
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count();
}

// Steps without an update, so that the optimiser has no state yet, as in the first measured step.
void warm_up(const Options& options, const TextData& text, const Variant& variant,
             reprise::MemoryBudget& budget) {
  Trainer trainer(options, text, &budget);
  for (int step = 0; step < kBudgetWarmUp; ++step) {
    trainer.begin_step();
    trainer.forward(variant).backward();
  }
}

Measurement measurement_of(const Variant& variant, const Options& options) {
  Measurement result;
  result.variant = &variant;
  result.label = variant.name + (variant.is_budgeted ? " " + budget_text(options) : "");
  return result;
}

}  // namespace

Measurement measure_run(const Options& options, const TextData& text, const Variant& variant,
                        reprise::MemoryBudget* budget, Progress& progress) {
  Measurement result = measurement_of(variant, options);
  try {
    if (variant.is_budgeted) {
      warm_up(options, text, variant, *budget);
    }
    Trainer trainer(options, text, budget);
    for (std::int64_t step = 0; step < options.measure_steps; ++step) {
      run_and_watch(trainer, result);
      if (step == 0 || step + 1 == options.measure_steps) {
        append_gradients(trainer, result.gradients);
      }
      trainer.update();
      progress.tick();
    }
    trainer.begin_step();
    result.trained_state_bytes = current_bytes(trainer.device());
  } catch (const c10::OutOfMemoryError& error) {
    result = measurement_of(variant, options);
    result.out_of_memory = error.what_without_backtrace();
  }
  return result;
}

void measure_times(const Options& options, const TextData& text,
                   std::vector<Measurement>& measurements, reprise::MemoryBudget* budget,
                   Progress& progress) {
  std::vector<Measurement*> fitting;
  for (Measurement& measurement : measurements) {
    if (!measurement.out_of_memory) {
      fitting.push_back(&measurement);
    }
  }
  Trainer trainer(options, text, budget);
  std::vector<std::vector<double>> times_ms(fitting.size());
  for (std::int64_t round = -1; round < options.measure_steps; ++round) {
    for (std::size_t i = 0; i < fitting.size(); ++i) {
      if (fitting[i]->out_of_memory) {
        continue;
      }
      try {
        const double time_ms = timed_step_ms(trainer, *fitting[i]->variant);
        if (round >= 0) {  // the first round warms up
          times_ms[i].push_back(time_ms);
        }
      } catch (const c10::OutOfMemoryError& error) {  // a store may have been slower than before
        fitting[i]->out_of_memory = error.what_without_backtrace();
      }
      progress.tick();
    }
  }
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    if (!fitting[i]->out_of_memory) {
      fitting[i]->step_ms = median(times_ms[i]);
    }
  }
}

}  // namespace char_gpt
