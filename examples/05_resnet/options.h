// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: options.h
//
// The command line of the example.
#ifndef RESNET_OPTIONS_H_
#define RESNET_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>

namespace resnet {

struct Options {
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  std::int64_t train_images = 12000;
  std::int64_t test_images = 10000;
  std::int64_t width = 16;  // channels of the first stage
  std::int64_t blocks = 2;  // of each stage
  std::int64_t batch = 64;
  std::int64_t epochs = 3;
  double rate = 0.1;
  std::int64_t seed = 1;
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

}  // namespace resnet

#endif  // RESNET_OPTIONS_H_
