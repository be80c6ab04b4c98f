// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>

#include "variants.h"

namespace tensor_parallel_gpt {
namespace {

void add_options(CLI::App& app, Options& options) {
  const auto add_number = [&](const char* name, std::int64_t& value, const char* meaning) {
    app.add_option(name, value, meaning)
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  };
  app.add_option("--text", options.text, "file to train on");
  app.add_option("--device", options.device, "cpu, or cuda: a GPU for each rank")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--variants", options.variants, "those to compare, as in none,+partition")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(CLI::IsMember(variant_names()));
  app.add_option("--train-with", options.train_with,
                 "variant of the training run (default: the last of --variants)")
      ->check(CLI::IsMember(variant_names()));
  add_number("--layers", options.layers, "transformer blocks");
  add_number("--width", options.width, "features of a token");
  add_number("--heads", options.heads, "attention heads, a multiple of the number of ranks");
  add_number("--context", options.context, "tokens of a sequence");
  add_number("--batch", options.batch, "sequences of a step");
  add_number("--steps", options.steps, "steps of the training run");
  add_number("--measure-steps", options.measure_steps, "steps a variant is measured over");
  add_number("--seed", options.seed, "seed of weights, batches and dropout");
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  options.text = TENSOR_PARALLEL_GPT_TEXT;
  options.variants = variant_names();
  CLI::App app(
      "Trains a character-level GPT that is divided among the ranks of a launcher, and compares "
      "ways to keep the inputs of its blocks.",
      "tensor_parallel_gpt");
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
  if (options.train_with.empty()) {
    options.train_with = options.variants.back();
  }
  return options;
}

void check_divisible(const Options& options, std::int64_t ranks) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  if (options.heads % ranks != 0) {
    throw UsageError("--heads " + text(options.heads) + " cannot be divided among " + text(ranks) +
                     " ranks; give a multiple of " + text(ranks) + ", or start other ranks");
  }
  if (options.width % options.heads != 0) {
    throw UsageError("--width " + text(options.width) + " is not a multiple of --heads " +
                     text(options.heads));
  }
  // partitioned() leaves tensors of less than 4 KiB whole, and rounds parts up to 16 bytes; CUDA's
  // allocator to 512. That is to be less than one in a hundred.
  const std::int64_t rounding = options.device == "cuda" ? 512 : 16;
  const std::int64_t least = std::max<std::int64_t>(4096, 100 * rounding * ranks);
  const std::int64_t bytes = 4 * options.batch * options.context * options.width;
  if (bytes < least) {
    throw UsageError("the input of a block has " + text(bytes) + " bytes; partitioning it takes " +
                     text(least) + ": raise --batch, --context or --width");
  }
}

}  // namespace tensor_parallel_gpt
