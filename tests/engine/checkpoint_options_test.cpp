// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checkpoint_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"

namespace reprise::checkpoint_options_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CheckpointOptionsTest, MinInputBytesCountsTensorsAtAnyDepth) {
  const at::Tensor x = torch::rand({10}).requires_grad_();
  int runs = 0;
  const auto is_region = [&](std::int64_t min_input_bytes, ReplayMode replay) {
    runs = 0;
    const auto run = [&](const std::tuple<at::Tensor, int>& pair,
                         const std::vector<at::Tensor>& list) {
      ++runs;
      return (std::get<0>(pair) * list[0]).sin();
    };
    const at::Tensor y = checkpoint({.replay = replay, .min_input_bytes = min_input_bytes}, run,
                                    std::make_tuple(x, 3), std::vector<at::Tensor>{x, x});
    y.sum().backward();
    return runs == 2;
  };
  EXPECT_TRUE(is_region(120, ReplayMode::kFunction));
  EXPECT_FALSE(is_region(121, ReplayMode::kFunction));
  EXPECT_FALSE(is_region(121, ReplayMode::kTape));
}

TEST(CheckpointOptionsTest, MinInputBytesThatCannotHoldIsAnError) {
  const auto sin = [](const at::Tensor& t) { return t.sin(); };
  EXPECT_THAT([&] { checkpoint({.min_input_bytes = -1}, sin, torch::rand({2})); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("min_input_bytes is negative: -1")));
  EXPECT_THAT(
      [&] { checkpoint({.copied_state_limit_bytes = -1}, sin, torch::rand({2})); },
      ThrowsMessage<std::invalid_argument>(HasSubstr("copied_state_limit_bytes is negative: -1")));
  EXPECT_THAT([] { const CheckpointScope scope({.min_input_bytes = 1}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("a scope has no inputs")));
}

// As in a plain call.
TEST(CheckpointOptionsTest, CallsAnAnyModuleAndLeavesOutDefaultArguments) {
  struct Scale {
    at::Tensor forward(const at::Tensor& x, double factor = 3) { return x.sin() * factor; }
  };
  const at::Tensor x = torch::rand({4}).requires_grad_();
  EXPECT_TRUE(at::equal(checkpoint(Scale(), x), x.sin() * 3));
  EXPECT_TRUE(at::equal(checkpoint(Scale(), x, 2.0), x.sin() * 2));
  torch::nn::AnyModule any(torch::nn::Linear(4, 4));
  const at::Tensor y = checkpoint(any, x);
  EXPECT_TRUE(at::equal(y, any.forward(x)));
  y.sum().backward();
  EXPECT_TRUE(any.ptr()->parameters()[0].grad().defined());
}

}  // namespace
}  // namespace reprise::checkpoint_options_test
