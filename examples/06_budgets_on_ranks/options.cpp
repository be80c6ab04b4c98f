// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <string>

namespace budgets_on_ranks {
namespace {

void add_options(CLI::App& app, Options& options) {
  const CLI::Range size(std::int64_t{1}, std::int64_t{65536});
  app.add_option("--layers", options.layers, "layers of the model, or of each stage")->check(size);
  app.add_option("--width", options.width, "features of a row")->check(size);
  app.add_option("--rows", options.rows, "rows of a rank's batch, or of a micro-batch")
      ->check(size);
  app.add_option("--micro-batches", options.micro_batches,
                 "micro-batches of a step of the pipeline, at least as many as ranks")
      ->check(size);
  app.add_option("--steps", options.steps, "training steps")->check(size);
  app.add_option(
         "--fraction", options.fraction,
         "each rank's budget, as a part of the plain step's peak beyond the bytes before it")
      ->check(CLI::Range(0.001, 0.999));
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Trains on the ranks of a launcher, data-parallel and as a pipeline, each rank within a "
      "memory budget.",
      "budgets_on_ranks");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw UsageError(line);
  }
  return options;
}

}  // namespace budgets_on_ranks
