// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: variants.h
//
// The ways to run a block that the example compares.
#ifndef TENSOR_PARALLEL_GPT_VARIANTS_H_
#define TENSOR_PARALLEL_GPT_VARIANTS_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "ranks.h"

namespace tensor_parallel_gpt {

// A block of the model, from its input to its output.
using Callable = std::function<at::Tensor(const at::Tensor& h)>;

// Runs `block` on `h`; `region` is a name for the block.
using BlockRunner = std::function<at::Tensor(const Callable& block, const std::string& region,
                                             const at::Tensor& h)>;

struct Variant {
  std::string name;
  BlockRunner run_block;
};

inline constexpr const char* kNone = "none";
inline constexpr const char* kCheckpoint = "checkpoint";
inline constexpr const char* kPartition = "+partition";
inline constexpr const char* kPartitionHost = "+partition+host";

std::vector<std::string> variant_names();

// `name` is one of variant_names().
Variant make_variant(const std::string& name, const Ranks& ranks);

}  // namespace tensor_parallel_gpt

#endif  // TENSOR_PARALLEL_GPT_VARIANTS_H_
