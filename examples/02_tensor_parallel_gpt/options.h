// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: options.h
//
// The command line of the example.
#ifndef TENSOR_PARALLEL_GPT_OPTIONS_H_
#define TENSOR_PARALLEL_GPT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace tensor_parallel_gpt {

struct Options {
  std::string text;  // a file
  std::string device = "cpu";
  std::vector<std::string> variants;
  std::string train_with;  // empty: the last of the variants
  std::int64_t layers = 12;
  std::int64_t width = 96;
  std::int64_t heads = 4;
  std::int64_t context = 64;
  std::int64_t batch = 24;
  std::int64_t steps = 60;
  std::int64_t measure_steps = 5;
  std::int64_t seed = 1;
};

// An error that the user can correct: printed as one line, exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads the command line; std::nullopt if it asked for help, which is then printed. Throws
// UsageError.
std::optional<Options> parse_options(int argc, const char* const* argv);

// Throws UsageError if a model of these sizes cannot be divided among so many ranks.
void check_divisible(const Options& options, std::int64_t ranks);

}  // namespace tensor_parallel_gpt

#endif  // TENSOR_PARALLEL_GPT_OPTIONS_H_
