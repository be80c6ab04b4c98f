// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators of most kinds that LibTorch has, each as a small piece of a model's code.
#ifndef REPRISE_TESTS_PROPERTY_OPERATOR_FAMILIES_H_
#define REPRISE_TESTS_PROPERTY_OPERATOR_FAMILIES_H_

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace torch::jit {
struct CompilationUnit;
}  // namespace torch::jit

namespace reprise::testing {

// Parameters, modules and buffers that the pieces share. Equal for equal seeds.
struct Surroundings {
  explicit Surroundings(std::uint64_t seed);

  std::vector<at::Tensor> parameters() const;
  // The tensors that the pieces write to.
  std::vector<at::Tensor> buffers() const;

  at::Tensor square;     // [6, 6]
  at::Tensor tall;       // [6, 4]
  at::Tensor bias;       // [6]
  at::Tensor kernel;     // [2, 1, 3, 3]
  at::Tensor embedding;  // [10, 6]
  torch::nn::LSTM lstm;
  torch::nn::GRU gru;
  torch::nn::MultiheadAttention attention;
  torch::nn::TransformerEncoderLayer encoder;
  torch::nn::BatchNorm1d batch_norm;
  std::shared_ptr<torch::jit::CompilationUnit> script;
  at::Tensor average;                  // [6], overwritten
  at::Tensor count;                    // [1], written, never read
  std::array<at::Tensor, 4> observed;  // least and greatest value, scale and zero point
  at::Generator generator;
};

// One piece: takes a float tensor [4, 6], gives a tensor of any shape, real or complex.
struct Family {
  const char* name;
  at::Tensor (*run)(Surroundings& around, const at::Tensor& x);
  // Its backward has one of its own.
  bool has_double_backward = true;
  // And saves it, though another piece or a later forward may change it without a count: kNone does
  // not notice what kValues rightly complains of.
  bool reads_what_changes = false;
  // Its graph holds itself until a backward frees it.
  bool must_be_freed = false;
  // An operator saves memory before it fills it: a copy that hooks make then is not determined.
  bool saves_unfilled = false;
  // Reads or writes elements through pointers.
  bool is_for_cpu = false;
  // Runs a backward, for which a function region runs its code again.
  bool has_backward_inside = false;
  // Draws from Surroundings::generator, which a region that is not watched does not find.
  bool draws_from_own_generator = false;
};

// Without those that the program's device lacks.
// REPRISE_PROGRAM_FAMILIES=sin,packed gru has these alone.
const std::vector<Family>& families();

// In the files that have them.
std::vector<Family> arithmetic_families();
std::vector<Family> further_arithmetic_families();
std::vector<Family> further_layer_families();
std::vector<Family> shape_families();
std::vector<Family> layer_families();
std::vector<Family> writing_families();

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_OPERATOR_FAMILIES_H_
