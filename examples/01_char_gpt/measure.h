// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: measure.h
//
// Runs the variants from the same start and compares their memory, time, losses and gradients.
#ifndef CHAR_GPT_MEASURE_H_
#define CHAR_GPT_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live_bytes.h"
#include "options.h"
#include "progress.h"
#include "reprise/engine/memory_budget.h"
#include "text_data.h"
#include "variants.h"

namespace char_gpt {

struct Measurement {
  const Variant* variant = nullptr;
  std::string label;                         // of its row in the table
  std::optional<std::string> out_of_memory;  // why it did not fit; nothing below is set then

  // Of the last measured step.
  std::int64_t state_bytes = 0;          // live before it: parameters, optimiser state and batch
  std::int64_t trained_state_bytes = 0;  // live before the next one
  std::int64_t kept_bytes = 0;           // that forward left behind for backward
  std::int64_t peak_bytes = 0;           // of all tensors, over forward and backward

  double step_ms = 0;                // median of whole steps, the optimiser's part included
  std::vector<double> losses;        // of the measured steps
  std::vector<std::byte> gradients;  // of all parameters, in the first and in the last of them

  // Forward and backward of the fastest measured step.
  std::vector<LiveSample> curve;
  LiveSample after_forward;
};

// The losses, gradients and memory of `measure_steps` steps of a fresh training run. `budget` is
// that of the variant "budget", else null.
Measurement measure_run(const Options& options, const TextData& text, const Variant& variant,
                        reprise::MemoryBudget* budget, Progress& progress);

// Sets the step times, from `measure_steps` rounds in each of which every variant that fits makes
// one step, so that a disturbance of the machine meets all of them.
void measure_times(const Options& options, const TextData& text,
                   std::vector<Measurement>& measurements, reprise::MemoryBudget* budget,
                   Progress& progress);

}  // namespace char_gpt

#endif  // CHAR_GPT_MEASURE_H_
