// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Fine-tunes LoRA adapters of a LLaMA-shaped model in a fraction of the memory of its activations.
// See README.md.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "fine_tuning.h"
#include "measure.h"
#include "options.h"
#include "pretraining.h"
#include "progress.h"
#include "reprise/engine/cpu_memory.h"
#include "table.h"
#include "text.h"
#include "variants.h"

namespace llama_lora {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

// Beyond the bytes before a step.
std::int64_t budget_bytes(const Measurement& plain, const Options& options) {
  return static_cast<std::int64_t>(options.fraction * static_cast<double>(plain.peak_bytes));
}

struct Comparison {
  std::vector<Measurement> measurements;  // of all variants
  std::unique_ptr<reprise::MemoryBudget> budget;
};

Comparison compare_variants(const Llama& model, const Text& text, const Options& options) {
  Progress progress("measuring",
                    options.measure_steps * static_cast<std::int64_t>(all_variants().size()));
  Comparison result;
  for (const Variant& variant : all_variants()) {
    if (variant.is_budgeted) {
      const Measurement& plain = result.measurements.front();
      result.budget = std::make_unique<reprise::MemoryBudget>(reprise::MemoryBudgetOptions{
          .peak_bytes = plain.bytes_before + budget_bytes(plain, options)});
    }
    result.measurements.push_back(
        measure_steps(model, text, options, variant, result.budget.get(), progress));
  }
  return result;
}

std::vector<Measurement> measure_full_training(const Llama& model, const Text& text,
                                               const Options& options) {
  std::vector<Measurement> measurements;
  for (const Variant& variant : all_variants()) {
    if (!variant.is_budgeted) {
      measurements.push_back(measure_full_training(model, text, options, variant));
    }
  }
  return measurements;
}

void print_parameters(const Llama& model, const FineTuning& tuning,
                      const std::vector<Measurement>& full) {
  std::int64_t frozen = 0;
  for (const torch::Tensor& parameter : model->base_parameters()) {
    frozen += parameter.numel();
  }
  std::cout << "\nparameters: " << frozen << " frozen, " << tuning.trained_parameters()
            << " of adapters trained\nwith all " << frozen << " trained, and no adapters:\n";
  for (const Measurement& measurement : full) {
    std::cout << "  " << std::left << std::setw(9) << measurement.variant->name << "kept "
              << mebibytes_text(measurement.kept_bytes) << " after forward, peak "
              << mebibytes_text(measurement.peak_bytes) << '\n';
  }
  std::cout << '\n';
}

// Returns whether all variants agree, and the budgeted one is within its part of the plain peak.
bool are_right(const std::vector<Measurement>& measurements, const Options& options) {
  const Measurement& plain = measurements.front();
  return std::all_of(measurements.begin(), measurements.end(), [&](const Measurement& m) {
    return is_bitwise_equal(m, plain) &&
           (!m.variant->is_budgeted || m.peak_bytes <= budget_bytes(plain, options));
  });
}

int run(const Options& options) {
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  }
  reprise::install_cpu_memory_counter();  // sees only what is allocated afterwards
  const Text base_text(options.base_text, options.context);
  const Text text(options.text, options.context);

  torch::manual_seed(static_cast<std::uint64_t>(options.seed));
  Llama model(options);
  std::cout << "pretraining on " << options.base_text.string() << ", " << base_text.size()
            << " bytes\n";
  pretrain(model, base_text, options);
  const std::vector<Measurement> full = measure_full_training(model, text, options);

  auto [measurements, budget] = compare_variants(model, text, options);
  FineTuning tuning(model, text, options);
  print_parameters(model, tuning, full);
  const double loss_before = tuning.held_out_loss();
  std::cout << "fine-tuning on " << options.text.string() << ", " << text.size()
            << " bytes; the variants take turns\n";
  measure_times(tuning, options, measurements, budget.get());
  std::cout << "loss of the text's held-out tenth: " << loss_before << " before, "
            << tuning.held_out_loss() << " after\n\n"
            << table_text(measurements) << '\n'
            << "the budget is " << options.fraction << " of the plain step's peak: "
            << mebibytes_text(budget_bytes(measurements.front(), options)) << '\n'
            << budget->report();
  return are_right(measurements, options) ? 0 : kExitFailure;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const UsageError& error) {
    std::cerr << "llama_lora: " << error.what() << '\n';
    return kExitUsage;
  } catch (const c10::Error& error) {
    std::cerr << "llama_lora: " << error.what_without_backtrace() << '\n';
    return kExitFailure;
  } catch (const std::exception& error) {
    std::cerr << "llama_lora: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace llama_lora

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a progress bar that ends early must not end the training
  return llama_lora::run_reporting_errors(argc, argv);
}
