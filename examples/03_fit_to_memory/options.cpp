// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <string>

namespace fit_to_memory {
namespace {

void add_options(CLI::App& app, Options& options) {
  const CLI::Range size(std::int64_t{1}, std::int64_t{65536});
  app.add_option("--layers", options.layers, "residual layers")->check(size);
  app.add_option("--width", options.width, "features of a row")->check(size);
  app.add_option("--batch", options.batch, "rows of a step")->check(size);
  app.add_option("--steps", options.steps, "training steps")->check(size);
  app.add_option(
         "--fraction", options.fraction,
         "memory to train in, as a part of the plain step's peak beyond the bytes before it")
      ->check(CLI::Range(0.001, 0.999));
  app.add_option("--threads", options.threads,
                 "threads of an operator (default: LibTorch's choice)")
      ->check(CLI::Range(0, 1024));
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Trains a deep model in a fraction of the memory that its activations need, by a memory "
      "budget.",
      "fit_to_memory");
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

}  // namespace fit_to_memory
