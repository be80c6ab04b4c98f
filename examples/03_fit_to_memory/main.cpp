// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Trains a deep model in a fraction of the memory that its activations need. See README.md.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "options.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "trainer.h"

namespace fit_to_memory {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

struct Run {
  std::int64_t bytes_before = 0;  // in use before a step: parameters and batch
  std::int64_t peak_bytes = 0;    // of all steps
  std::vector<double> losses;
  std::vector<std::byte> gradients;  // of the first and of the last step
};

std::string mebibytes_text(std::int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

void print_step(std::int64_t number, double loss, const reprise::BudgetedStep& step) {
  std::ostringstream line;
  line << "step " << std::setw(4) << number << "   loss " << std::fixed << std::setprecision(4)
       << loss << "   peak " << mebibytes_text(step.peak_bytes) << std::setprecision(0)
       << std::setw(7) << step.seconds * 1e3 << " ms" << (step.is_planned() ? "   planned" : "");
  std::cout << line.str() << std::endl;
}

// Trains a new model; without a budget if it is null.
Run train(const Options& options, reprise::MemoryBudget* budget) {
  Trainer trainer(options);
  Run run;
  for (std::int64_t number = 1; number <= options.steps; ++number) {
    trainer.begin_step();
    run.bytes_before = reprise::cpu_memory().current_bytes;
    reprise::reset_peak_cpu_memory();
    run.losses.push_back(budget == nullptr ? trainer.differentiate()
                                           : trainer.differentiate_within(*budget));
    run.peak_bytes = std::max(run.peak_bytes, reprise::cpu_memory().peak_bytes);
    if (number == 1 || number == options.steps) {
      trainer.append_gradients(run.gradients);
    }
    if (budget != nullptr) {
      print_step(number, run.losses.back(), budget->last_step().value());
    }
    trainer.update();
  }
  return run;
}

// Returns whether a plain step reaches the limit.
bool is_out_of_memory(const Options& options) {
  Trainer trainer(options);
  trainer.begin_step();
  try {
    trainer.differentiate();
  } catch (const c10::OutOfMemoryError& error) {
    std::cout << "plain step at the wall: out of memory: " << error.what_without_backtrace()
              << '\n';
    return true;
  }
  return false;
}

void print_comparison(const Run& plain, const Run& budgeted) {
  const auto compared = [](bool is_equal) { return is_equal ? "bitwise equal" : "DIFFERENT"; };
  std::cout << "losses of all steps: " << compared(budgeted.losses == plain.losses) << '\n'
            << "gradients of the first and the last step: "
            << compared(budgeted.gradients == plain.gradients) << "\n\n";
}

int run(const Options& options) {
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  }
  reprise::install_cpu_memory_counter();  // sees only what is allocated afterwards

  const Run plain = train(options, nullptr);
  const std::int64_t activation_bytes = plain.peak_bytes - plain.bytes_before;
  const std::int64_t wall =
      plain.bytes_before +
      static_cast<std::int64_t>(options.fraction * static_cast<double>(activation_bytes));
  std::cout << "plain step: " << mebibytes_text(plain.bytes_before) << " before it, "
            << mebibytes_text(plain.peak_bytes) << " at its peak\n"
            << "wall: " << mebibytes_text(wall) << ", the bytes before and " << options.fraction
            << " of those beyond\n";

  reprise::set_cpu_memory_limit(wall);
  if (!is_out_of_memory(options)) {
    std::cerr << "fit_to_memory: the plain step fits below the wall\n";
    return kExitFailure;
  }
  std::cout << "\ntraining within a budget at the wall, " << options.steps << " steps\n";
  reprise::MemoryBudget budget({.peak_bytes = wall});
  const Run budgeted = train(options, &budget);

  std::cout << '\n';
  print_comparison(plain, budgeted);
  std::cout << budget.report();
  const bool is_equal = budgeted.losses == plain.losses && budgeted.gradients == plain.gradients;
  return is_equal ? 0 : kExitFailure;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const UsageError& error) {
    std::cerr << "fit_to_memory: " << error.what() << '\n';
    return kExitUsage;
  } catch (const c10::Error& error) {
    std::cerr << "fit_to_memory: " << error.what_without_backtrace() << '\n';
    return kExitFailure;
  } catch (const std::exception& error) {
    std::cerr << "fit_to_memory: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace fit_to_memory

int main(int argc, char** argv) { return fit_to_memory::run_reporting_errors(argc, argv); }
