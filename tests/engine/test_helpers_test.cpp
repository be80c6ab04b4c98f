// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The test helpers themselves: a helper that never fails would let everything pass.
#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>

#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/default_device.h"
#include "tests/testing/fault.h"
#include "tests/testing/node_counter.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::test_helpers_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BitwiseEqualTest, ComparesBitsNotValues) {
  const at::Tensor nan = torch::full({2}, std::nan(""));
  EXPECT_TRUE(bitwise_equal(nan, nan.clone()));
  EXPECT_TRUE(bitwise_equal(at::Tensor(), at::Tensor()));
  EXPECT_FALSE(bitwise_equal(torch::zeros({1}), -torch::zeros({1})));
  EXPECT_FALSE(bitwise_equal(torch::zeros({1}), torch::zeros({1}, at::kDouble)));
  EXPECT_FALSE(bitwise_equal(torch::zeros({2}), torch::zeros({1, 2})));
  EXPECT_FALSE(bitwise_equal(torch::zeros({2}), at::Tensor()));
  const at::Tensor x = torch::randn({3, 4});
  EXPECT_TRUE(bitwise_equal(x.t(), x.t().contiguous()));
}

TEST(BitwiseEqualTest, NamesTheFirstDifference) {
  const at::Tensor x = torch::zeros({2, 3});
  at::Tensor y = x.clone();
  y[1][0].fill_(1);
  y[1][2].fill_(2);
  const ::testing::AssertionResult result = bitwise_equal(x, y);
  EXPECT_FALSE(result);
  EXPECT_THAT(result.message(), HasSubstr("2 of 6 elements differ, first at [1, 0]"));
  EXPECT_THAT(result.message(), HasSubstr("0 (0x00000000) against 1 (0x3f800000)"));
}

TEST(BitwiseEqualTest, PrintsAllDtypes) {
  for (const at::ScalarType dtype :
       {at::kBool, at::kLong, at::kBFloat16, at::kFloat8_e5m2, at::kComplexDouble}) {
    const at::Tensor x = torch::zeros({2}).to(dtype);
    EXPECT_FALSE(bitwise_equal(x, torch::ones({2}).to(dtype))) << dtype;
  }
}

TEST(LeakCheckTest, FindsALivingTensor) {
  at::Tensor kept;
  EXPECT_NONFATAL_FAILURE(
      {
        LeakCheck leak_check;
        kept = torch::empty({10}, at::kByte);
        leak_check.expect_no_leak();
      },
      "10 bytes more are alive");
}

TEST(NodeCounterTest, CountsTheNodesOfAGraph) {
  at::Tensor x = torch::ones({2}, torch::requires_grad());
  NodeCounter counter;
  {
    const at::Tensor y = (x.exp() * x).sin();
    counter.watch(y);
    counter.watch(y);
    EXPECT_EQ(counter.watched(), 4U);  // sin, mul, exp, accumulation
    EXPECT_EQ(counter.alive(), 4U);
  }
  EXPECT_EQ(counter.alive(), 0U);
  counter.watch(x.detach());
  EXPECT_EQ(counter.watched(), 4U);
}

TEST(OpRecorderTest, NotesOperatorsInTheirOrder) {
  const at::Tensor x = torch::ones({2});
  OpRecorder recorder;
  x.exp();
  {
    const OpRecorder inner;
    x.sin();
    EXPECT_THAT(inner.names(), ElementsAre("aten::sin"));
  }
  EXPECT_THAT(recorder.names(), ElementsAre("aten::exp", "aten::sin"));
  EXPECT_EQ(recorder.count("aten::exp"), 1U);
  recorder.clear();
  EXPECT_EQ(recorder.count("aten::exp"), 0U);
}

TEST(AllocationFaultTest, FailsTheNthAllocationOnly) {
  const LeakCheck leak_check;
  AllocationFault fault(2);
  const at::Tensor a = torch::empty({4});
  EXPECT_FALSE(fault.fired());
  EXPECT_THAT([&] { torch::empty({4}); },
              ::testing::ThrowsMessage<c10::OutOfMemoryError>(HasSubstr("injected failure")));
  EXPECT_TRUE(fault.fired());
  EXPECT_NO_THROW(torch::empty({4}));
}

TEST(DefaultDeviceTest, IsOfTensorsWithoutADevice) {
  {
    const DefaultDevice meta(c10::kMeta);
    EXPECT_TRUE(at::zeros({2}).is_meta());
    EXPECT_TRUE(torch::nn::Linear(2, 2)->weight.is_meta());
    EXPECT_TRUE(at::zeros({2}, at::kCPU).is_cpu());
    EXPECT_TRUE(at::zeros_like(at::zeros({2}, at::kCPU)).is_cpu());
  }
  EXPECT_TRUE(at::zeros({2}).is_cpu());
}

}  // namespace
}  // namespace reprise::testing::test_helpers_test
