// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: options.h
//
// The command line of the example.
#ifndef BUDGETS_ON_RANKS_OPTIONS_H_
#define BUDGETS_ON_RANKS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <stdexcept>

namespace budgets_on_ranks {

struct Options {
  std::int64_t layers = 12;        // of the model, or of each stage of the pipeline
  std::int64_t width = 128;        // features of a row
  std::int64_t rows = 512;         // of a rank's batch, or of a micro-batch
  std::int64_t micro_batches = 8;  // of a step of the pipeline
  std::int64_t steps = 8;
  double fraction = 0.5;  // of the memory that a plain step needs beyond the bytes before it
};

// An error that the user can correct: printed as one line, exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads the command line; std::nullopt if it asked for help, which is then printed. Throws
// UsageError.
std::optional<Options> parse_options(int argc, const char* const* argv);

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_OPTIONS_H_
