// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 116, 118 and 119: arguments and results that are no tensors or need no gradient.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/region/frame.h"
#include "tests/testing/bitwise.h"

namespace reprise::non_tensor_test {
namespace {

using testing::bitwise_equal;

TEST(CheckpointTest, C116_AllowsSecondArgumentToBeAnUndefinedTensor) {
  const auto x = at::ones({5}).requires_grad_();
  const auto y = checkpoint(
      [](const at::Tensor& a, const at::Tensor& b) { return b.defined() ? a * b : a.exp(); }, x,
      at::Tensor());
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), at::ones({5}).exp()));
}

TEST(CheckpointTest, C116_AllowsSecondArgumentToBeNullopt) {
  const auto x = at::ones({5}).requires_grad_();
  const auto region = [](const at::Tensor& a, const std::optional<at::Tensor>& b) {
    return b ? a * *b : a.exp();
  };
  checkpoint(region, x, std::nullopt).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), at::ones({5}).exp()));
  x.mutable_grad() = at::Tensor();
  checkpoint(region, x, std::optional<at::Tensor>(at::full({5}, 3.0))).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), at::full({5}, 3.0)));
}

TEST(CheckpointTest, C116b_AllowsResultToBeNulloptOrUndefinedOrATupleOfOne) {
  const auto x = at::ones({5}).requires_grad_();
  const std::optional<at::Tensor> nothing = checkpoint(
      [](const at::Tensor& a) { return a.numel() > 9 ? std::optional(a.exp()) : std::nullopt; }, x);
  EXPECT_FALSE(nothing.has_value());
  EXPECT_FALSE(checkpoint([](const at::Tensor&) { return at::Tensor(); }, x).defined());
  const std::tuple<at::Tensor> one =
      checkpoint([](const at::Tensor& a) { return std::tuple(a.exp()); }, x);
  std::get<0>(one).sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), at::ones({5}).exp()));
}

TEST(CheckpointTest, C118_NumbersAndTextPassThrough) {
  int runs = 0;
  const std::tuple<int, std::string> result = checkpoint(
      [&runs](int a, double b, const std::string& text) {
        ++runs;
        return std::tuple(a + static_cast<int>(b), text + "!");
      },
      2, 3.0, std::string("five"));
  EXPECT_EQ(result, std::tuple(5, std::string("five!")));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(engine_internal::Frame::live_count(), 0);
}

TEST(CheckpointTest, C119_OneResultWithoutGradIsFine) {
  const auto x = at::randn({4}).requires_grad_();
  const auto [with, without] =
      checkpoint([](const at::Tensor& a) { return std::tuple(a.exp(), a.detach().exp()); }, x);
  EXPECT_TRUE(with.requires_grad());
  EXPECT_FALSE(without.requires_grad());
  with.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach().exp()));
}

TEST(CheckpointTest, C119_NoResultWithGradIsNoErrorAndSavesNothing) {
  const std::int64_t frames = engine_internal::Frame::live_count();
  const auto x = at::randn({4});
  const auto y = checkpoint([](const at::Tensor& a) { return a.exp(); }, x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(engine_internal::Frame::live_count(), frames);
}

}  // namespace
}  // namespace reprise::non_tensor_test
