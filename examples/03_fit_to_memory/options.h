// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: options.h
//
// The command line of the example.
#ifndef FIT_TO_MEMORY_OPTIONS_H_
#define FIT_TO_MEMORY_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <stdexcept>

namespace fit_to_memory {

struct Options {
  std::int64_t layers = 96;
  std::int64_t width = 32;
  std::int64_t batch = 2048;
  std::int64_t steps = 8;
  double fraction = 0.1;
  int threads = 0;  // 0: as many as LibTorch chooses
};

// An error that the user can correct: printed as one line, exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Reads the command line; std::nullopt if it asked for help, which is then printed. Throws
// UsageError.
std::optional<Options> parse_options(int argc, const char* const* argv);

}  // namespace fit_to_memory

#endif  // FIT_TO_MEMORY_OPTIONS_H_
