// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Runs modules for comparison: the bits of a step, and the contents of an archive.
#ifndef REPRISE_TESTS_TESTING_MODULES_H_
#define REPRISE_TESTS_TESTING_MODULES_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/bitwise.h"

namespace reprise::testing {

inline at::Tensor small_input() { return torch::linspace(-1, 1, 12).view({3, 4}).requires_grad_(); }

// One step on `small_input()` from a fixed seed: the output, the gradient of the input, and those
// of the parameters, which are then cleared.
template <class Holder>
std::vector<at::Tensor> outcome_of(Holder& module) {
  const at::Tensor x = small_input();
  torch::manual_seed(5);
  const at::Tensor y = module->forward(x);
  y.square().sum().backward();
  std::vector<at::Tensor> found = {y.detach(), x.grad()};
  for (const at::Tensor& parameter : module->parameters()) {
    found.push_back(parameter.grad().clone());
  }
  module->zero_grad();
  return found;
}

inline void expect_same_bits(const std::vector<at::Tensor>& got,
                             const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(got[i], expected[i])) << "tensor " << i;
  }
}

template <class Holder>
std::string archive_of(const Holder& module) {
  std::ostringstream stream;
  torch::save(module, stream);
  return stream.str();
}

template <class Holder>
void load_archive(Holder& module, const std::string& archive) {
  std::istringstream stream(archive);
  torch::load(module, stream);
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_MODULES_H_
