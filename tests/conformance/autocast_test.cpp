// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 107 to 109: autocast.
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_sequential.h"
#include "tests/testing/bitwise.h"

namespace reprise::autocast_test {
namespace {

using testing::bitwise_equal;

class Autocast {
 public:
  Autocast(at::DeviceType device, bool enabled, at::ScalarType dtype)
      : device_(device),
        enabled_before_(at::autocast::is_autocast_enabled(device)),
        dtype_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_dtype(device_, dtype_before_);
    at::autocast::set_autocast_enabled(device_, enabled_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  at::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

// The gradients of three products, whose backward runs outside of autocast.
std::vector<at::Tensor> product_gradients(bool as_region, at::DeviceType device, bool enabled) {
  torch::manual_seed(0);
  const auto options = at::TensorOptions(device);
  const std::vector<at::Tensor> leaves{at::randn({10, 5}, options).requires_grad_(),
                                       at::randn({5, 5}, options).requires_grad_()};
  const auto region = [enabled](const at::Tensor& x, const at::Tensor& w) {
    auto y = x.mm(w);
    y = y.mm(w);
    y = y.mm(w);
    EXPECT_EQ(y.scalar_type(), enabled ? at::kBFloat16 : at::kFloat);
    return y;
  };
  at::Tensor y;
  {
    const Autocast autocast(device, enabled, at::kBFloat16);
    y = as_region ? checkpoint(region, leaves[0], leaves[1]) : region(leaves[0], leaves[1]);
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(device));
  auto gradients = torch::autograd::grad({y.sum()}, leaves);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(device));
  return gradients;
}

void expect_equal_product_gradients(at::DeviceType device, bool enabled) {
  const auto expected = product_gradients(false, device, enabled);
  const auto actual = product_gradients(true, device, enabled);
  EXPECT_TRUE(bitwise_equal(actual[0], expected[0]));
  EXPECT_TRUE(bitwise_equal(actual[1], expected[1]));
}

TEST(CheckpointAutocastTest, C107_ReplayOnTheCpuSeesAutocastOn) {
  expect_equal_product_gradients(at::kCPU, true);
}

TEST(CheckpointAutocastTest, C107_ReplayOnTheCpuSeesAutocastOff) {
  expect_equal_product_gradients(at::kCPU, false);
}

TEST(CheckpointAutocastTest, C108_ReplayOnAnAcceleratorSeesAutocast) {
  if (!at::hasCUDA()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  expect_equal_product_gradients(at::kCUDA, true);
  expect_equal_product_gradients(at::kCUDA, false);
}

// The product reads a view of the cast, which a recomputation outside of autocast makes itself.
TEST(CheckpointAutocastTest, WeightWhoseCastWasCachedBeforeTheRegion) {
  const at::Tensor w = at::randn({8, 8}).requires_grad_();
  const auto gradient = [&](bool as_region) {
    const auto region = [&](const at::Tensor& h) { return at::linear(h, w).exp(); };
    at::Tensor y;
    {
      const Autocast autocast(at::kCPU, true, at::kBFloat16);
      const at::Tensor h = at::linear(at::ones({4, 8}) / 8, w);
      y = as_region ? checkpoint(region, h) : region(h);
    }
    return torch::autograd::grad({y.sum()}, {w})[0];
  };
  EXPECT_TRUE(bitwise_equal(gradient(true), gradient(false)));
}

struct SequentialResult {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

SequentialResult run_sequential(bool as_regions) {
  torch::manual_seed(1);
  torch::nn::Sequential layers(torch::nn::Linear(8, 8), torch::nn::Linear(8, 8),
                               torch::nn::Linear(8, 8));
  const auto x = at::randn({8, 8}).to(at::kHalf).requires_grad_();
  SequentialResult result;
  {
    const Autocast autocast(at::kCPU, true, at::kHalf);
    result.output = as_regions ? checkpoint_sequential(layers, 2, x) : layers->forward(x);
  }
  result.output.sum().backward();
  result.gradients.push_back(x.grad());
  for (const auto& parameter : layers->parameters()) {
    result.gradients.push_back(parameter.grad());
  }
  return result;
}

TEST(CheckpointAutocastTest, C109_SequentialRegionsUnderAutocastGiveHalfOutputsThatRequireGrad) {
  const SequentialResult expected = run_sequential(false);
  const SequentialResult actual = run_sequential(true);
  EXPECT_TRUE(actual.output.requires_grad());
  EXPECT_EQ(actual.output.scalar_type(), at::kHalf);
  EXPECT_TRUE(bitwise_equal(actual.output, expected.output));
  ASSERT_EQ(actual.gradients.size(), 7U);
  for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(actual.gradients[i], expected.gradients[i])) << "gradient " << i;
  }
}

}  // namespace
}  // namespace reprise::autocast_test
