// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Trains on several ranks, each within a memory budget. See README.md.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <exception>
#include <iostream>
#include <optional>
#include <sstream>

#include "data_parallel.h"
#include "options.h"
#include "pipeline.h"
#include "ranks.h"
#include "reprise/engine/cpu_memory.h"

namespace budgets_on_ranks {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

int run(const Options& options) {
  at::set_num_threads(1);                 // the order of sums would depend on it
  reprise::install_cpu_memory_counter();  // sees only what is allocated afterwards
  const Ranks ranks = meet();
  std::ostringstream nowhere;
  std::ostream& out = ranks.rank == 0 ? std::cout : nowhere;
  bool is_right = train_data_parallel(options, ranks, out);
  is_right &= train_pipeline(options, ranks, out);
  if (is_right) {
    out << "each rank stayed within its budget" << std::endl;
  }
  ranks.group->barrier()->wait();  // the first rank has the store at which the others met
  return is_right ? 0 : kExitFailure;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const UsageError& error) {
    std::cerr << "budgets_on_ranks: " << error.what() << '\n';
    return kExitUsage;
  } catch (const c10::Error& error) {
    std::cerr << "budgets_on_ranks: " << error.what_without_backtrace() << '\n';
    return kExitFailure;
  } catch (const std::exception& error) {
    std::cerr << "budgets_on_ranks: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace budgets_on_ranks

int main(int argc, char** argv) { return budgets_on_ranks::run_reporting_errors(argc, argv); }
