// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors

#include <torch/torch.h>

#include <iostream>

#include "reprise/reprise.h"

int main() {
  torch::nn::Linear layer(64, 64);
  const torch::Tensor y = reprise::checkpoint(layer, torch::randn({8, 64}));
  y.sum().backward();
  std::cout << "gradient " << layer->weight.grad().sizes() << '\n';
}
