// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: options.h
//
// The command line of the example.
#ifndef CHAR_GPT_OPTIONS_H_
#define CHAR_GPT_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace char_gpt {

// Of the variant "budget".
struct BudgetOption {
  double fraction = 0.5;  // of what the plain step needs beyond the bytes before it
  std::optional<std::int64_t> bytes = std::nullopt;  // at the peak, instead
};

struct Options {
  std::filesystem::path text;  // empty: the sources and docs of Reprise
  std::filesystem::path out = "demo_out";
  std::string device = "cpu";
  std::vector<std::string> variants = {};  // empty: all
  std::string store;                       // a row; empty: "disk" for the CPU, "host" for a GPU
  std::string train_with;  // empty: "full" if it was measured and fits, else the first that fits
  std::int64_t layers = 6;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t context = 128;
  std::int64_t batch = 24;
  bool fused = false;
  double dropout = 0.1;
  double learning_rate = 4e-3;
  std::int64_t steps = 140;
  std::int64_t measure_steps = 7;
  std::int64_t sample_length = 400;
  std::int64_t seed = 1;
  int threads = 0;  // 0: as many as LibTorch chooses
  std::optional<std::int64_t> memory_limit_bytes;
  BudgetOption budget;  // with a memory limit, that limit if nothing else is said
};

// An error that the user can correct: printed as one line, exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads the command line; std::nullopt if it asked for help, which is then printed.
// Throws UsageError.
std::optional<Options> parse_options(int argc, const char* const* argv);

// The bytes meant by "200MB", "1.5GiB" and the like. Throws UsageError.
std::int64_t parse_bytes(const std::string& text);

// "0.5" or an amount of memory. Throws UsageError.
BudgetOption parse_budget(const std::string& text);

}  // namespace char_gpt

#endif  // CHAR_GPT_OPTIONS_H_
