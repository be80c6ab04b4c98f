// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 138 and 141: saved tensors that lie elsewhere.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/testing/bitwise.h"

namespace reprise::hooks_storage_test {
namespace {

using testing::bitwise_equal;

// A file that goes with its owner.
class TensorFile {
 public:
  TensorFile(const at::Tensor& tensor, const std::filesystem::path& folder)
      : path_(folder / (std::to_string(next_++) + ".pt")) {
    torch::save(tensor, path_.string());
  }
  TensorFile(TensorFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  TensorFile& operator=(TensorFile&&) = delete;
  ~TensorFile() {
    if (!path_.empty()) {
      std::filesystem::remove(path_);
    }
  }
  at::Tensor load() const {
    at::Tensor tensor;
    torch::load(tensor, path_.string());
    return tensor;
  }

 private:
  static inline int next_ = 0;
  std::filesystem::path path_;
};

TEST(SavedTensorHooksTest, C138_SavedTensorsMayLieOnDisk) {
  const std::filesystem::path folder = ::testing::TempDir() + "reprise_c138";
  std::filesystem::create_directories(folder);
  const at::Tensor a = at::arange(1.0, 6.0, at::kDouble).requires_grad_();
  at::Tensor y;
  {
    const SavedTensorHooksGuard hooks(
        [&folder](const at::Tensor& tensor) { return TensorFile(tensor, folder); },
        [](const TensorFile& file) { return file.load(); });
    y = (a * a).exp();
  }
  const auto files = [&folder] {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  EXPECT_EQ(files(), 3);
  const auto gradient = torch::autograd::grad({y.sum()}, {a})[0];
  const at::Tensor b = a.detach().requires_grad_();
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({(b * b).exp().sum()}, {b})[0]));
  EXPECT_EQ(files(), 0);
  std::filesystem::remove_all(folder);
}

at::Tensor gradient_of_product(at::ScalarType dtype, bool offload, bool pin_memory) {
  torch::manual_seed(0);
  const auto a = at::randn({3, 4}, dtype).requires_grad_();
  const auto b = at::randn({3, 4}, dtype);
  at::Tensor y;
  if (offload) {
    const SaveOnCpuGuard guard({.pin_memory = pin_memory});
    y = (a * b).exp() * a;
  } else {
    y = (a * b).exp() * a;
  }
  return torch::autograd::grad({y.sum()}, {a})[0];
}

TEST(SavedTensorHooksTest, C141_SaveOnCpuKeepsValuesAndDtype) {
  for (const auto dtype : {at::kFloat, at::kDouble}) {
    for (const bool pin_memory : {false, true}) {
      EXPECT_TRUE(bitwise_equal(gradient_of_product(dtype, true, pin_memory),
                                gradient_of_product(dtype, false, false)));
    }
  }
}

TEST(SavedTensorHooksTest, C141_SaveOnCpuKeepsSparseTensors) {
  const auto sparse = at::eye(3, at::kDouble).mul(2).to_sparse();
  const auto dense = at::ones({3, 3}, at::kDouble).requires_grad_();
  at::Tensor y;
  {
    const SaveOnCpuGuard offload;
    y = at::mm(sparse, dense);
  }
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(dense.grad(), at::full({3, 3}, 2.0, at::kDouble)));
}

}  // namespace
}  // namespace reprise::hooks_storage_test
