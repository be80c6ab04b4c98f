// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "variants.h"

#include "reprise/engine/checkpoint.h"

namespace llama_lora {
namespace {

torch::Tensor run_plainly(Block& block, const torch::Tensor& h, const Rotary& rotary) {
  return block(h, rotary);
}

// The first block's input requires no gradient, as the embedding is frozen. Its adapters get theirs
// all the same.
torch::Tensor run_as_region(Block& block, const torch::Tensor& h, const Rotary& rotary) {
  return reprise::checkpoint(block, h, rotary);
}

}  // namespace

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> variants = {
      {.name = "plain", .run_block = run_plainly},
      {.name = "regions", .run_block = run_as_region},
      {.name = "budget", .run_block = run_plainly, .is_budgeted = true},
  };
  return variants;
}

}  // namespace llama_lora
