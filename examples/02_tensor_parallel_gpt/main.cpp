// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Trains a character-level GPT that is divided among processes. See README.md.

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include "measure.h"
#include "options.h"
#include "ranks.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/partition/launch_environment.h"
#include "trainer.h"
#include "variants.h"

namespace tensor_parallel_gpt {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr std::int64_t kLossLines = 8;

reprise::LaunchEnvironment read_launcher() {
  try {
    return reprise::read_launch_environment();
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

void print_model(const Options& options, const std::string& text, const Ranks& ranks) {
  std::cout << "text: " << text.size() << " bytes\n"
            << "model: " << options.layers << " blocks, width " << options.width << ", "
            << options.heads << " heads, context " << options.context << ", batch " << options.batch
            << ", on " << ranks.size << " ranks (" << options.device << ")\n\n";
}

void train(const Options& options, const std::string& text, const Ranks& ranks,
           const Variant& variant) {
  Trainer trainer(options, text, ranks);
  std::ostringstream nowhere;
  std::ostream& out = ranks.rank == 0 ? std::cout : nowhere;
  out << "\ntraining with variant " << variant.name << ", " << options.steps << " steps\n"
      << std::fixed << std::setprecision(3);
  const std::int64_t interval = std::max<std::int64_t>(1, options.steps / kLossLines);
  double first = 0;
  double mean = 0;  // of the steps since the last line
  std::int64_t averaged = 0;
  for (std::int64_t step = 1; step <= options.steps; ++step) {
    const double loss = trainer.differentiate(variant);
    trainer.update();
    first = step == 1 ? loss : first;
    mean += (loss - mean) / static_cast<double>(++averaged);
    if (step == 1 || step % interval == 0 || step == options.steps) {
      out << "step " << std::setw(6) << step << "   loss " << mean << std::endl;
      averaged = 0;
    }
  }
  out << "loss " << (mean < first ? "fell" : "did not fall") << " from " << first << " to " << mean
      << '\n';
}

int run(const Options& options) {
  check_divisible(options, read_launcher().world_size);
  reprise::install_cpu_memory_counter();  // sees only what is allocated afterwards
  const std::string text = load_text(options);
  const Ranks ranks = meet(options.device);
  const bool is_first = ranks.rank == 0;
  std::vector<Variant> variants;
  for (const std::string& name : options.variants) {
    variants.push_back(make_variant(name, ranks));
  }
  if (is_first) {
    print_model(options, text, ranks);
  }
  const std::vector<Measurement> measurements = measure(options, text, ranks, variants);
  const std::vector<std::string> wrong = failures(measurements, ranks.size);
  if (is_first) {
    print_table(measurements, ranks.size, std::cout);
    for (const std::string& line : wrong) {
      std::cerr << "tensor_parallel_gpt: " << line << '\n';
    }
  }
  if (wrong.empty()) {  // on all ranks, or on none
    train(options, text, ranks, make_variant(options.train_with, ranks));
  }
  ranks.group->barrier()->wait();  // the first rank has the store at which the others met
  return wrong.empty() ? 0 : kExitFailure;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const UsageError& error) {
    std::cerr << "tensor_parallel_gpt: " << error.what() << '\n';
    return kExitUsage;
  } catch (const c10::Error& error) {
    std::cerr << "tensor_parallel_gpt: " << error.what_without_backtrace() << '\n';
    return kExitFailure;
  } catch (const std::exception& error) {
    std::cerr << "tensor_parallel_gpt: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace tensor_parallel_gpt

int main(int argc, char** argv) { return tensor_parallel_gpt::run_reporting_errors(argc, argv); }
