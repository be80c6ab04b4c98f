// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: variants.h
//
// The ways to run a training step.
#ifndef LLAMA_LORA_VARIANTS_H_
#define LLAMA_LORA_VARIANTS_H_

#include <string>
#include <vector>

#include "model.h"

namespace llama_lora {

struct Variant {
  std::string name;
  BlockRunner run_block;
  bool is_budgeted = false;  // forward runs within a MemoryBudget
};

// The plain step comes first.
const std::vector<Variant>& all_variants();

}  // namespace llama_lora

#endif  // LLAMA_LORA_VARIANTS_H_
