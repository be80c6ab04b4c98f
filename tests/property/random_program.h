// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Small programs made up from a seed: views, writes in place and through views, random operators,
// operators with several results, writes to tensors from outside, regions within regions.
#ifndef REPRISE_TESTS_PROPERTY_RANDOM_PROGRAM_H_
#define REPRISE_TESTS_PROPERTY_RANDOM_PROGRAM_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "reprise/engine/checkpoint_options.h"
#include "tests/testing/number_from.h"

namespace reprise::testing {

inline std::size_t pick(std::mt19937_64& random, std::size_t n) {
  return static_cast<std::size_t>(random() % n);
}

enum class Form : std::uint8_t { kPlain, kFunction, kTape, kScope };

// Runs code on tensors as a region of that form, or plainly.
using Code = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;
std::vector<at::Tensor> run_as(Form form, const CheckpointOptions& options, const Code& code,
                               const std::vector<at::Tensor>& inputs);

class RandomProgram {
 public:
  // One of `length` steps. Regions inside are of the form that the run has, or of another one.
  RandomProgram(std::uint64_t seed, int length) : seed_(seed), length_(length) {}

  // inputs: two of [4, 4] with gradients. outside: of [4], without; the program writes to it.
  // Returns one tensor.
  std::vector<at::Tensor> run(Form form, const std::vector<at::Tensor>& inputs,
                              const at::Tensor& outside) const;

 private:
  using Random = std::mt19937_64;
  using Pool = std::vector<at::Tensor>;

  Pool steps(std::uint64_t seed, int length, Form form, Pool pool, const at::Tensor& outside) const;
  static at::Tensor step(Random& random, const Pool& pool, const at::Tensor& outside);
  static at::Tensor functional_step(Random& random, const at::Tensor& a, const at::Tensor& b);
  static at::Tensor writing_step(Random& random, const at::Tensor& a, const at::Tensor& b,
                                 const at::Tensor& outside);
  static at::Tensor view_step(Random& random, const at::Tensor& a, const at::Tensor& b);

  std::uint64_t seed_;
  int length_;
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_RANDOM_PROGRAM_H_
