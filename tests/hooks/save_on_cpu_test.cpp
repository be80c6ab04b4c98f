// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/save_on_cpu.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "reprise/hooks/saved_tensor_hooks.h"
#include "tests/hooks/counting_hooks.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/node_counter.h"

namespace reprise::save_on_cpu_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::live_cpu_bytes;
using ::testing::ThrowsMessage;

at::Tensor leaf() { return at::arange(1.0, 6.0, at::kDouble).requires_grad_(); }

TEST(SaveOnCpuGuardTest, CpuTensorsAreLeftWhereTheyAre) {
  const at::Tensor x = at::randn({64, 64}).requires_grad_();
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    const SaveOnCpuGuard offload;
    y = x.sin().exp();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 64 * 64 * 4);  // the result of exp; sin saves its input
  const auto gradient = torch::autograd::grad({y.sum()}, {x})[0];
  EXPECT_TRUE(bitwise_equal(gradient, torch::autograd::grad({x.sin().exp().sum()}, {x})[0]));
}

TEST(SaveOnCpuGuardTest, ThrowsForChangesOfForwardedTensors) {
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const SaveOnCpuGuard offload;
    y = x.exp();
  }
  {
    const at::NoGradGuard no_grad;
    y.mul_(2);
  }
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<c10::Error>(
                  AllOf(HasSubstr("modified by an inplace operation"),
                        HasSubstr("CPUDoubleType [5] on cpu is at version 1; expected version 0"),
                        HasSubstr("clone it before changing it"))));
  EXPECT_FALSE(x.grad().defined());
}

TEST(SaveOnCpuGuardTest, ThrowsForParameterChangedInPlaceAsWithoutTheGuard) {
  const at::Tensor x = leaf();
  const at::Tensor w = leaf();
  at::Tensor y;
  {
    const SaveOnCpuGuard offload;
    y = x * w;
  }
  {
    const at::NoGradGuard no_grad;
    w.add_(1);
  }
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
}

TEST(SaveOnCpuGuardTest, ResultThatIsKeptMakesNoCycle) {
  testing::NodeCounter nodes;
  const std::int64_t before = live_cpu_bytes();
  {
    const at::Tensor x = leaf();
    const SaveOnCpuGuard offload;
    const at::Tensor y = x.exp().exp();
    nodes.watch(y);
    EXPECT_EQ(nodes.alive(), 3U);
  }
  EXPECT_EQ(nodes.alive(), 0U);
  EXPECT_EQ(live_cpu_bytes(), before);
}

TEST(SaveOnCpuGuardTest, IsInnermostLikeAnyOtherHooks) {
  const auto hooks = std::make_shared<testing::CountingHooks>();
  const SavedTensorHooksGuard outer(hooks);
  {
    const SaveOnCpuGuard offload;
    EXPECT_FALSE(testing::are_active(hooks));
  }
  EXPECT_TRUE(testing::are_active(hooks));
}

TEST(SaveOnCpuGuardTest, CannotBeMadeWhereHooksAreDisabled) {
  const DisableSavedTensorHooksGuard disabled("no offload here");
  EXPECT_THAT([] { const SaveOnCpuGuard guard; },
              ThrowsMessage<c10::Error>(HasSubstr("no offload here")));
}

TEST(SaveOnCpuGuardTest, TensorsOfAnAcceleratorComeBackInTheirLayout) {
  if (!at::hasCUDA()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  const at::TensorOptions options(at::kCUDA);
  for (const bool pin_memory : {false, true}) {
    const auto run = [&](bool offload) {
      torch::manual_seed(1);
      const at::Tensor x = at::randn({4, 6, 8, 8}, options).requires_grad_();
      const at::Tensor last = x.contiguous(at::MemoryFormat::ChannelsLast);
      const at::Tensor row = at::randn({1, 8}, options).requires_grad_();
      at::Tensor y;
      if (offload) {
        const SaveOnCpuGuard guard({.pin_memory = pin_memory});
        y = (last.slice(1, 0, 6, 2) * row.expand({8, 8})).sin().exp();
      } else {
        y = (last.slice(1, 0, 6, 2) * row.expand({8, 8})).sin().exp();
      }
      return torch::autograd::grad({y.sum()}, {x, row});
    };
    const auto expected = run(false);
    const auto actual = run(true);
    EXPECT_TRUE(bitwise_equal(actual[0], expected[0]));
    EXPECT_TRUE(bitwise_equal(actual[1], expected[1]));
  }
}

}  // namespace
}  // namespace reprise::save_on_cpu_test
