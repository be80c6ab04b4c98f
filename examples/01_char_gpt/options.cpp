// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <limits>
#include <map>
#include <sstream>
#include <type_traits>

namespace char_gpt {
namespace {

constexpr std::int64_t kMaxSize = 65536;
constexpr std::int64_t kMaxSteps = 1'000'000'000;

// Accepts whole numbers (if `Number` is one) or numbers from `low` to `high`. Unlike CLI::Range it
// refuses "nan".
template <class Number>
CLI::Validator between(Number low, Number high) {
  const auto check = [low, high](const std::string& text) -> std::string {
    Number value{};
    if (CLI::detail::lexical_cast(text, value) && value >= low && value <= high) {
      return {};
    }
    std::ostringstream message;
    message << "'" << text << "' is not a " << (std::is_integral_v<Number> ? "whole " : "")
            << "number from " << low << " to " << high;
    return message.str();
  };
  return CLI::Validator(check, "");
}

std::vector<std::string> split_at_commas(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) {
    if (!part.empty() && std::find(parts.begin(), parts.end(), part) == parts.end()) {
      parts.push_back(part);
    }
  }
  return parts;
}

void add_model_options(CLI::App& app, Options& options) {
  const CLI::Validator size = between(std::int64_t{1}, kMaxSize);
  app.add_option("--layers", options.layers, "transformer blocks")->check(size);
  app.add_option("--width", options.width, "features of a token")->check(size);
  app.add_option("--heads", options.heads, "attention heads, a divisor of the width")->check(size);
  app.add_option("--context", options.context, "tokens of a sequence")->check(size);
  app.add_option("--batch", options.batch, "sequences of a step")->check(size);
  app.add_option("--dropout", options.dropout, "dropout probability")->check(between(0.0, 0.95));
  app.add_flag("--fused", options.fused,
               "use scaled_dot_product_attention, not explicit attention");
}

void add_training_options(CLI::App& app, Options& options) {
  const CLI::Validator steps = between(std::int64_t{1}, kMaxSteps);
  app.add_option("--text", options.text, "file to train on (default: the sources of Reprise)");
  app.add_option("--lr", options.learning_rate, "peak learning rate of AdamW")
      ->check(between(0.0, 10.0));
  app.add_option("--steps", options.steps, "steps of the training run")->check(steps);
  app.add_option("--measure-steps", options.measure_steps, "steps a variant is measured over")
      ->check(steps);
  app.add_option("--sample", options.sample_length, "bytes of text to write at the end")
      ->check(between(std::int64_t{0}, kMaxSize));
  app.add_option("--seed", options.seed, "seed of weights, batches and dropout")
      ->check(between(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  app.add_option("--threads", options.threads,
                 "threads of an operator (default: LibTorch's choice)")
      ->check(between(1, 1024));
  app.add_option("--train-with", options.train_with, "variant of the training run");
}

// As they are written; empty: not given.
struct MemoryTexts {
  std::string limit;
  std::string budget;
};

void add_memory_options(CLI::App& app, Options& options, MemoryTexts& texts) {
  app.add_option(
      "--store", options.store,
      "where the offloading variants keep tensors: packed, host, disk, compressed, "
      "quantized, or several as in 'packed|disk' (default: disk for the CPU, else host)");
  app.add_option("--memory-limit", texts.limit,
                 "refuse allocations that would bring all tensors above it, for example 200MB");
  app.add_option("--budget", texts.budget,
                 "memory of the variant budget: bytes at the peak, for example 200MB, or a part of "
                 "what none needs beyond the bytes before a step (default: the limit, or 0.5)");
}

void read_memory_options(const CLI::App& app, const MemoryTexts& texts, Options& options) {
  if (app.count("--memory-limit") > 0) {
    options.memory_limit_bytes = parse_bytes(texts.limit);
    options.budget.bytes = options.memory_limit_bytes;
  }
  if (app.count("--budget") > 0) {
    options.budget = parse_budget(texts.budget);
  }
}

void check_combinations(const Options& options) {
  if (options.width % options.heads != 0) {
    throw UsageError("--width " + std::to_string(options.width) + " is not a multiple of --heads " +
                     std::to_string(options.heads));
  }
  if (options.memory_limit_bytes && options.device != "cpu") {
    throw UsageError("--memory-limit works for --device cpu only");
  }
}

}  // namespace

std::int64_t parse_bytes(const std::string& text) {
  static const std::map<std::string, double> kUnits = {
      {"B", 1},         {"KB", 1e3},      {"MB", 1e6},     {"GB", 1e9},
      {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  std::istringstream in(text);
  double number = 0;
  std::string unit;
  const auto entry = in >> number >> unit ? kUnits.find(unit) : kUnits.end();
  const bool is_number = entry != kUnits.end() && (in >> std::ws).eof();
  const double bytes = is_number ? number * entry->second : 0;
  if (!is_number || !(bytes >= 1) || bytes > 1e18) {
    throw UsageError("'" + text + "' is not an amount of memory; write a positive number and one " +
                     "of B, KB, MB, GB, KiB, MiB, GiB, for example 200MB");
  }
  return std::llround(bytes);
}

BudgetOption parse_budget(const std::string& text) {
  double fraction = 0;
  if (!CLI::detail::lexical_cast(text, fraction)) {
    return {.bytes = parse_bytes(text)};
  }
  if (!(fraction > 0 && fraction <= 1)) {
    throw UsageError("--budget " + text + " is no part above 0 and up to 1; for bytes, write a " +
                     "unit as well, for example 200MB");
  }
  return {.fraction = fraction};
}

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  std::string variants;
  MemoryTexts memory;
  CLI::App app(
      "Trains a character-level GPT with and without activation checkpointing, and "
      "compares memory, time and gradients.",
      "char_gpt");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_training_options(app, options);
  add_model_options(app, options);
  app.add_option("--device", options.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  const CLI::Option* chosen = app.add_option(
      "--variants", variants, "variants to compare, as in none,full (default: the first nine)");
  add_memory_options(app, options, memory);
  app.add_option("--out", options.out, "folder for the plot and its data");
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
  options.variants = split_at_commas(variants);
  if (chosen->count() > 0 && options.variants.empty()) {
    throw UsageError("--variants names no variant; give a list such as none,full");
  }
  read_memory_options(app, memory, options);
  check_combinations(options);
  return options;
}

}  // namespace char_gpt
