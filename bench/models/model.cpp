// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "bench/models/model.h"

#include <stdexcept>

namespace reprise::bench {

Model make_model(const std::string& name) {
  torch::manual_seed(0);
  if (name == "gpt" || name == "gpt-fused") {
    return gpt::make(/*fused=*/name == "gpt-fused");
  }
  if (name == "resnet") {
    return resnet::make();
  }
  if (name == "lstm") {
    return lstm::make();
  }
  if (name == "moe") {
    return moe::make();
  }
  throw std::invalid_argument("there is no model '" + name + "'");
}

}  // namespace reprise::bench
