// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>

namespace llama_lora {
namespace {

void add_model_options(CLI::App& app, Options& options) {
  const CLI::Range size(std::int64_t{1}, std::int64_t{65536});
  app.add_option("--layers", options.layers, "transformer blocks")->check(size);
  app.add_option("--width", options.width, "features of a token")->check(size);
  app.add_option("--heads", options.heads, "heads of the queries, a divisor of the width")
      ->check(size);
  app.add_option("--kv-heads", options.kv_heads,
                 "heads of keys and values, a divisor of those of the queries")
      ->check(size);
  app.add_option("--hidden", options.hidden, "features inside SwiGLU")->check(size);
  app.add_option("--rank", options.rank, "rank of the adapters")->check(size);
}

void add_training_options(CLI::App& app, Options& options) {
  const CLI::Range size(std::int64_t{1}, std::int64_t{65536});
  const CLI::Range rate(0.0, 10.0);
  app.add_option("--base-text", options.base_text, "file to pretrain the base weights on");
  app.add_option("--text", options.text, "file to fine-tune the adapters on");
  app.add_option("--context", options.context, "tokens of a sequence, one per byte")->check(size);
  app.add_option("--batch", options.batch, "sequences of a step")->check(size);
  app.add_option("--pretrain-steps", options.pretrain_steps, "steps of pretraining")->check(size);
  app.add_option("--measure-steps", options.measure_steps, "steps to measure of each variant")
      ->check(size);
  app.add_option("--steps", options.steps, "steps of fine-tuning")->check(size);
  app.add_option("--pretrain-lr", options.pretrain_rate, "learning rate of pretraining")
      ->check(rate);
  app.add_option("--lr", options.rate, "learning rate of fine-tuning")->check(rate);
  app.add_option("--fraction", options.fraction,
                 "memory of the budget, as a part of the plain step's peak beyond the bytes "
                 "before it")
      ->check(CLI::Range(0.01, 1.0));
  app.add_option("--seed", options.seed, "seed of weights and batches")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  app.add_option("--threads", options.threads,
                 "threads of an operator (default: LibTorch's choice)")
      ->check(CLI::Range(0, 1024));
}

void check_combinations(const Options& options) {
  if (options.width % options.heads != 0 || options.width / options.heads % 2 != 0) {
    throw UsageError("--width " + std::to_string(options.width) + " is no even multiple of " +
                     "--heads " + std::to_string(options.heads));
  }
  if (options.heads % options.kv_heads != 0) {
    throw UsageError("--heads " + std::to_string(options.heads) + " is no multiple of " +
                     "--kv-heads " + std::to_string(options.kv_heads));
  }
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Fine-tunes LoRA adapters of a LLaMA-shaped model in a quarter of the memory of a plain "
      "step's activations.",
      "llama_lora");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_training_options(app, options);
  add_model_options(app, options);
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
  check_combinations(options);
  return options;
}

}  // namespace llama_lora
