// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: measure.h
//
// Bytes, losses and gradients of a variant's steps, and its time.
#ifndef LLAMA_LORA_MEASURE_H_
#define LLAMA_LORA_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fine_tuning.h"
#include "progress.h"

namespace llama_lora {

struct Measurement {
  const Variant* variant = nullptr;
  std::int64_t bytes_before = 0;  // in use before each step: weights, optimiser state, batch
  // Beyond those before, the most of all steps:
  std::int64_t kept_bytes = 0;  // after forward
  std::int64_t peak_bytes = 0;  // in forward and backward
  std::vector<double> losses;
  std::vector<std::byte> gradients;  // of the first and of the last step
  std::vector<double> step_ms;       // of measure_times()
};

// Makes `--measure-steps` steps with new adapters. budget: only for a budgeted variant.
Measurement measure_steps(const Llama& model, const Text& text, const Options& options,
                          const Variant& variant, reprise::MemoryBudget* budget,
                          Progress& progress);

// Makes one step with all weights trained, before the model has adapters, and without an update.
// Notes bytes only.
Measurement measure_full_training(Llama model, const Text& text, const Options& options,
                                  const Variant& variant);

// Makes `--steps` steps, the variants taking turns: each computes the same, so this is one training
// run. Notes the times of whole steps.
void measure_times(FineTuning& tuning, const Options& options,
                   std::vector<Measurement>& measurements, reprise::MemoryBudget* budget);

}  // namespace llama_lora

#endif  // LLAMA_LORA_MEASURE_H_
