// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Layered graphs made up from a seed: operators mostly read results of the layer before theirs, and
// their results vary in size. Loops of equal layers are among them.
#ifndef REPRISE_TESTS_PROPERTY_LAYERED_PROGRAM_H_
#define REPRISE_TESTS_PROPERTY_LAYERED_PROGRAM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <random>
#include <vector>

namespace reprise::testing {

class LayeredProgram {
 public:
  explicit LayeredProgram(std::uint64_t seed) : seed_(seed) {}

  // Returns leaves with gradients.
  static std::vector<at::Tensor> make_leaves();
  // Returns one element.
  at::Tensor run(const std::vector<at::Tensor>& leaves) const;

 private:
  using Random = std::mt19937_64;

  static at::Tensor combine(Random& random, const at::Tensor& a, const at::Tensor& b,
                            const std::vector<at::Tensor>& leaves);
  static at::Tensor change(Random& random, const at::Tensor& a,
                           const std::vector<at::Tensor>& leaves);

  std::uint64_t seed_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_LAYERED_PROGRAM_H_
