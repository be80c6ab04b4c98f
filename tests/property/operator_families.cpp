// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/operator_families.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <string>

#include "tests/property/program_device.h"
#include "tests/testing/bitwise.h"

namespace reprise::testing {
namespace {

constexpr const char* kScript = R"(
def gated(x, w):
    y = torch.tanh(torch.mm(x, w))
    return y * torch.sigmoid(x) + y.sum(1, keepdim=True)
)";

at::Tensor parameter(at::IntArrayRef sizes) { return at::randn(sizes).mul_(0.4).requires_grad_(); }

torch::nn::TransformerEncoderLayerOptions encoder_options() {
  return torch::nn::TransformerEncoderLayerOptions(6, 2).dim_feedforward(8).dropout(0.2);
}

bool is_chosen_family(const Family& family) {
  const char* const names = std::getenv("REPRISE_PROGRAM_FAMILIES");
  return names == nullptr ||
         c10::str(",", names, ",").find(c10::str(",", family.name, ",")) != std::string::npos;
}

std::vector<at::Tensor> plain_bits(const Family& family) {
  Surroundings around(7);
  std::vector<at::Tensor> leaves = around.parameters();
  leaves.push_back(at::randn({4, 6}).requires_grad_());
  const at::Tensor result = family.run(around, leaves.back().sin());
  std::vector<at::Tensor> all = {result.detach()};
  if (result.requires_grad() && !result.is_complex()) {
    const at::Tensor sum = result.sum();
    for (const at::Tensor& gradient : torch::autograd::grad({sum}, leaves, {}, {}, false, true)) {
      all.push_back(gradient);
    }
  }
  return all;
}

// Whether the program's device has its operators, and these give the same bits each time.
bool runs_here(const Family& family) {
  if (program_device().is_cpu()) {
    return true;
  }
  if (family.is_for_cpu) {
    return false;
  }
  try {
    const auto first = plain_bits(family);
    const auto again = plain_bits(family);
    return std::equal(first.begin(), first.end(), again.begin(), again.end(),
                      [](const at::Tensor& a, const at::Tensor& b) {
                        return static_cast<bool>(bitwise_equal(a, b));
                      });
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Surroundings::Surroundings(std::uint64_t seed)
    : lstm(nullptr), gru(nullptr), attention(nullptr), encoder(nullptr), batch_norm(nullptr) {
  torch::manual_seed(seed);
  square = parameter({6, 6});
  tall = parameter({6, 4});
  bias = parameter({6});
  kernel = parameter({2, 1, 3, 3});
  embedding = parameter({10, 6});
  lstm = torch::nn::LSTM(6, 5);
  gru = torch::nn::GRU(6, 5);
  attention =
      torch::nn::MultiheadAttention(torch::nn::MultiheadAttentionOptions(6, 2).dropout(0.2));
  encoder = torch::nn::TransformerEncoderLayer(encoder_options());
  batch_norm = torch::nn::BatchNorm1d(6);
  static const std::shared_ptr<torch::jit::CompilationUnit> kCompiled =
      torch::jit::compile(kScript);
  script = kCompiled;
  torch::jit::getExecutorMode() = false;  // which would run other operators each time at first
  average = at::zeros({6});
  count = at::zeros({1});
  observed = {at::zeros({1}), at::zeros({1}), at::ones({1}), at::zeros({1}, at::kInt)};
  generator = at::detail::createCPUGenerator(seed);
}

std::vector<at::Tensor> Surroundings::parameters() const {
  std::vector<at::Tensor> all = {square, tall, bias, kernel, embedding};
  for (const torch::nn::Module* const module : std::initializer_list<const torch::nn::Module*>{
           lstm.get(), gru.get(), attention.get(), encoder.get(), batch_norm.get()}) {
    const auto own = module->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

std::vector<at::Tensor> Surroundings::buffers() const {
  std::vector<at::Tensor> all = batch_norm->buffers();
  all.insert(all.end(), {average, count});
  all.insert(all.end(), observed.begin(), observed.end());
  return all;
}

const std::vector<Family>& families() {
  static const std::vector<Family> kAll = [] {
    std::vector<Family> all;
    for (const auto& some :
         {arithmetic_families(), shape_families(), layer_families(), writing_families(),
          further_arithmetic_families(), further_layer_families()}) {
      std::copy_if(some.begin(), some.end(), std::back_inserter(all), [](const Family& family) {
        return is_chosen_family(family) && runs_here(family);
      });
    }
    return all;
  }();
  return kAll;
}

}  // namespace reprise::testing
