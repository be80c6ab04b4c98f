// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The blocks of the demo's GPT.
#include "bench/models/language_model.h"
#include "bench/models/model.h"
#include "examples/01_char_gpt/model.h"

namespace reprise::bench::gpt {

constexpr int kBatch = 4;

const char_gpt::ModelConfig kSmallConfig = {
    .vocabulary = 64, .context = 128, .width = 256, .heads = 8, .layers = 4, .dropout = 0.1};
const char_gpt::ModelConfig kLargeConfig = {
    .vocabulary = 64, .context = 1024, .width = 1024, .heads = 16, .layers = 24, .dropout = 0.1};

Model make(bool fused, Size size, at::Device device) {
  char_gpt::ModelConfig config = size == Size::kLarge ? kLargeConfig : kSmallConfig;
  config.fused = fused;
  // LibTorch's fused attention on the CPU has none.
  config.dropout = fused && device.is_cpu() ? 0 : config.dropout;
  return make_language_model<char_gpt::Block>(config, kBatch, config.context, device);
}

}  // namespace reprise::bench::gpt
