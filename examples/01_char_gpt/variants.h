// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: variants.h
//
// The ways to run a block that the example compares. A new one is one more entry in variants.cpp.
#ifndef CHAR_GPT_VARIANTS_H_
#define CHAR_GPT_VARIANTS_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace char_gpt {

// A block of the model, from its input to its output.
using Callable = std::function<at::Tensor(const at::Tensor& h)>;

// Runs `block` on `h`; `region` is a name for the block.
using BlockRunner = std::function<at::Tensor(const Callable& block, const std::string& region,
                                             const at::Tensor& h)>;

// Whether a variant is compared without being asked for by --variants.
constexpr bool kByDefault = true;
constexpr bool kOnRequest = false;

struct Variant {
  std::string name;
  std::string description;
  BlockRunner run_block;
  bool is_default = kByDefault;
  bool offloads = false;     // saved tensors go to the store that --store names
  bool is_budgeted = false;  // forward runs within the memory budget that --budget names
};

// All of them; the first is the run that the others are compared with.
const std::vector<Variant>& all_variants();

// Throws UsageError, naming the known ones, if there is no such variant.
const Variant& find_variant(const std::string& name);

}  // namespace char_gpt

#endif  // CHAR_GPT_VARIANTS_H_
