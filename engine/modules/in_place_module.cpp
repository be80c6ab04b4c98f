// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/modules/in_place_module.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>

namespace reprise::engine_internal {
namespace {

template <class... Modules>
bool is_one_in_place(const torch::nn::Module& module) {
  const auto is_in_place = [](const auto* found) {
    return found != nullptr && found->options.inplace();
  };
  return (is_in_place(dynamic_cast<const Modules*>(&module)) || ...);
}

}  // namespace

bool works_in_place(const torch::nn::Module& module) {
  using namespace torch::nn;  // NOLINT(*-using-namespace): 13 names
  return is_one_in_place<ReLUImpl, ReLU6Impl, RReLUImpl, LeakyReLUImpl, ELUImpl, SELUImpl, CELUImpl,
                         HardtanhImpl, ThresholdImpl>(module) ||
         is_one_in_place<DropoutImpl, Dropout2dImpl, Dropout3dImpl, AlphaDropoutImpl,
                         FeatureAlphaDropoutImpl>(module);
}

}  // namespace reprise::engine_internal
