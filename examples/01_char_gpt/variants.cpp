// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "variants.h"

#include "options.h"
#include "reprise/engine/checkpoint.h"

namespace char_gpt {
namespace {

at::Tensor run_plainly(const Callable& block, const std::string& /*region*/, const at::Tensor& h) {
  return block(h);
}

at::Tensor run_checkpointed(const Callable& block, const std::string& region, const at::Tensor& h) {
  return reprise::checkpoint({.name = region}, block, h);
}

}  // namespace

const std::vector<Variant>& all_variants() {
  static const std::vector<Variant> kVariants = {
      {"none", "autograd keeps what it wants", run_plainly},
      {"full", "each block keeps its input only and runs again in backward", run_checkpointed},
  };
  return kVariants;
}

const Variant& find_variant(const std::string& name) {
  std::string known;
  for (const Variant& variant : all_variants()) {
    if (variant.name == name) {
      return variant;
    }
    known += (known.empty() ? "" : ", ") + variant.name;
  }
  throw UsageError("there is no variant '" + name + "'; there are " + known);
}

}  // namespace char_gpt
