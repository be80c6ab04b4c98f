// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Trains a character-level GPT with and without activation checkpointing. See README.md.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>

#include "measure.h"
#include "options.h"
#include "plot.h"
#include "progress.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "step_budget.h"
#include "store_row.h"
#include "table.h"
#include "text_data.h"
#include "trainer.h"
#include "variants.h"

namespace char_gpt {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr int kExitOutOfMemory = 3;
constexpr std::int64_t kLossLines = 10;

void prepare_device(const Options& options) {
  if (!is_device_available(options.device)) {
    throw UsageError("--device " + options.device + ": LibTorch finds no such device here");
  }
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  }
  // The counter sees only what is allocated after it was installed.
  reprise::install_cpu_memory_counter();
}

void prepare_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw UsageError("cannot make the folder '" + folder.string() + "' of --out" +
                     (error ? ": " + error.message() : ""));
  }
}

std::string describe_model(const Options& options) {
  std::ostringstream text;
  text << options.layers << " blocks, width " << options.width << ", " << options.heads
       << " heads, context " << options.context << ", batch " << options.batch << ", "
       << (options.fused ? "fused" : "explicit") << " attention, dropout " << options.dropout
       << ", " << options.device;
  return text.str();
}

std::vector<const Variant*> chosen_variants(const Options& options) {
  std::vector<const Variant*> variants;
  variants.reserve(all_variants().size());
  for (const std::string& name : options.variants) {
    variants.push_back(&find_variant(name));
  }
  for (const Variant& variant : all_variants()) {
    const bool is_possible = !variant.is_budgeted || options.device == "cpu";
    if (options.variants.empty() && variant.is_default && is_possible) {
      variants.push_back(&variant);
    }
  }
  if (!options.train_with.empty() &&
      std::find(variants.begin(), variants.end(), &find_variant(options.train_with)) ==
          variants.end()) {
    throw UsageError("--train-with " + options.train_with + " is not one of --variants");
  }
  return variants;
}

struct Comparison {
  std::vector<Measurement> measurements;
  std::unique_ptr<reprise::MemoryBudget> budget;  // if a variant has one
};

Comparison measure(const Options& options, const TextData& text,
                   const std::vector<const Variant*>& variants) {
  const auto count = static_cast<std::int64_t>(variants.size());
  Progress progress("measuring", count * (2 * options.measure_steps + 1));
  Comparison result;
  auto& [measurements, budget] = result;
  measurements.reserve(variants.size());
  for (const Variant* variant : variants) {
    if (variant->is_budgeted) {
      budget = make_budget(options, measurements);
    }
    measurements.push_back(measure_run(options, text, *variant, budget.get(), progress));
  }
  const bool any_fits = std::any_of(measurements.begin(), measurements.end(),
                                    [](const Measurement& m) { return !m.out_of_memory; });
  if (any_fits) {
    measure_times(options, text, measurements, budget.get(), progress);
  }
  return result;
}

// Null if no variant fits.
const Variant* variant_to_train(const Options& options,
                                const std::vector<Measurement>& measurements) {
  const std::string wanted = options.train_with.empty() ? "full" : options.train_with;
  const Variant* first = nullptr;
  for (const Measurement& measurement : measurements) {
    if (!measurement.out_of_memory) {
      if (measurement.variant->name == wanted) {
        return measurement.variant;
      }
      first = first != nullptr ? first : measurement.variant;
    }
  }
  return first;
}

void train(Trainer& trainer, const Options& options, const Variant& variant) {
  std::cout << "\ntraining with variant " << variant.name << " (" << variant.description << "), "
            << options.steps << " steps\n";
  Progress progress("training", options.steps);
  const std::int64_t interval = std::max<std::int64_t>(1, options.steps / kLossLines);
  double sum = 0;
  std::int64_t summed = 0;
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    sum += trainer.step(variant);
    ++summed;
    if (step == 1 || step % interval == 0 || step == options.steps) {
      std::ostringstream line;
      line << "step " << std::setw(6) << step << "   loss " << std::fixed << std::setprecision(3)
           << sum / static_cast<double>(summed);
      progress.print(line.str());
      sum = 0;
      summed = 0;
    }
    progress.tick();
  }
}

// Bytes that are no printable ASCII would garble a terminal.
std::string printable(std::string text) {
  for (char& byte : text) {
    const bool is_plain = (byte >= ' ' && byte <= '~') || byte == '\n';
    byte = is_plain ? byte : (byte == '\t' ? ' ' : '?');
  }
  return text;
}

int run(const Options& options) {
  const std::vector<const Variant*> variants = chosen_variants(options);
  prepare_device(options);
  const TextData text(load_text(options.text), options.context);
  prepare_folder(options.out);
  static_cast<void>(make_store(options));  // to say now what is wrong with it
  reprise::set_cpu_memory_limit(options.memory_limit_bytes);

  std::cout << "text: " << text.size() << " bytes, " << text.vocabulary() << " different\n"
            << "model: " << describe_model(options) << "\n\n";
  const auto [measurements, budget] = measure(options, text, variants);
  for (const Measurement& measurement : measurements) {
    if (measurement.out_of_memory) {
      std::cerr << "char_gpt: variant " << measurement.variant->name
                << " is out of memory: " << *measurement.out_of_memory << '\n';
    }
  }
  print_table(measurements, std::cout);
  const Variant* variant = variant_to_train(options, measurements);
  if (variant == nullptr) {
    return kExitOutOfMemory;
  }
  std::cout << write_plot(measurements, describe_model(options), options.out) << '\n';
  Trainer trainer(options, text, budget.get());
  train(trainer, options, *variant);
  std::cout << "\nsample:\n" << printable(trainer.write_sample(options.sample_length)) << '\n';
  return 0;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const UsageError& error) {
    std::cerr << "char_gpt: " << error.what() << '\n';
    return kExitUsage;
  } catch (const c10::OutOfMemoryError& error) {
    std::cerr << "char_gpt: out of memory: " << error.what_without_backtrace() << '\n';
    return kExitOutOfMemory;
  } catch (const c10::Error& error) {
    std::cerr << "char_gpt: " << error.what_without_backtrace() << '\n';
    return kExitFailure;
  } catch (const std::exception& error) {
    std::cerr << "char_gpt: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace char_gpt

int main(int argc, char** argv) {
  std::signal(SIGPIPE,
              SIG_IGN);  // a progress bar or plot that ends early must not end the training
  return char_gpt::run_reporting_errors(argc, argv);
}
