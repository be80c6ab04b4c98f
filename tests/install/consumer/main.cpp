// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors

#include <ATen/ATen.h>

#include <iostream>

#include "reprise/reprise.h"

int main() {
  const at::Tensor w = at::rand({4}).requires_grad_();
  const at::Tensor x = at::rand({4}).requires_grad_();
  const at::Tensor y =
      reprise::checkpoint([&](const at::Tensor& input) { return (input * w).sin(); }, x);
  y.sum().backward();

  const at::Tensor expected = (x.detach() * w.detach()).cos() * w.detach();
  if (!w.grad().defined() || !x.grad().defined() || !at::equal(x.grad(), expected)) {
    std::cerr << "consumer: wrong gradient\n";
    return 1;
  }
  std::cout << "consumer ok\n";
  return 0;
}
