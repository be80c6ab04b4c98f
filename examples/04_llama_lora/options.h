// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: options.h
//
// The command line of the example.
#ifndef LLAMA_LORA_OPTIONS_H_
#define LLAMA_LORA_OPTIONS_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>

namespace llama_lora {

struct Options {
  std::filesystem::path base_text = "/usr/share/common-licenses/GPL-3";
  std::filesystem::path text = "/usr/share/common-licenses/MPL-1.1";
  std::int64_t layers = 12;
  std::int64_t width = 192;
  std::int64_t heads = 6;
  std::int64_t kv_heads = 2;
  std::int64_t hidden = 512;  // of SwiGLU
  std::int64_t context = 128;
  std::int64_t batch = 8;
  std::int64_t rank = 8;  // of the adapters
  std::int64_t pretrain_steps = 100;
  std::int64_t measure_steps = 5;
  std::int64_t steps = 60;
  double pretrain_rate = 3e-3;
  double rate = 3e-3;
  double fraction = 0.25;  // of the plain step's activation peak, for the budget
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

}  // namespace llama_lora

#endif  // LLAMA_LORA_OPTIONS_H_
