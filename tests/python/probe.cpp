// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Functions that python_chain_test.py calls through ctypes, inside a Python process.
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/sin.h>
#include <torch/csrc/autograd/autograd.h>

#include <exception>
#include <iostream>

#include "reprise/reprise.h"

namespace {

at::Tensor gradient_of(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y.sum()}, {x})[0];
}

at::Tensor two_sines(const at::Tensor& x) { return at::sin(at::sin(x)); }

}  // namespace

// How often a region's code ran in one forward and backward; -1 if the gradient is not that of the
// plain run, -2 if something was thrown.
extern "C" [[gnu::visibility("default")]] int reprise_probe_region() {
  try {
    const at::Tensor x = at::linspace(-1, 1, 8).requires_grad_(true);
    int runs = 0;
    const at::Tensor y = reprise::checkpoint(
        [&runs](const at::Tensor& input) {
          ++runs;
          return two_sines(input);
        },
        x);
    return at::equal(gradient_of(y, x), gradient_of(two_sines(x), x)) ? runs : -1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return -2;
  }
}
