// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Kernels of our own, compared with the CPU; they have a meaning on a GPU only.
#include "reprise/hooks/packing/device_kernels.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>

#include "reprise/hooks/packing/bit_mask.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/quantized_cases.h"
#include "tests/testing/bitwise.h"

namespace reprise::device_kernels_test {
namespace {

using stores::QuantizedFormat;
using testing::bitwise_equal;

constexpr std::int64_t kLengths[] = {1, 7, 8, 9, 255, 4096, 100003, 40000001};

class DeviceKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!at::hasCUDA()) {
      GTEST_SKIP() << "needs a CUDA device";
    }
    if (!hooks_internal::has_kernels_for(at::kCUDA)) {
      GTEST_SKIP() << "Reprise was built without CUDA kernels";
    }
  }
};

TEST_F(DeviceKernelsTest, BitsAreThoseOfTheCpu) {
  for (const std::int64_t length : kLengths) {
    for (const std::int64_t offset : {0, 3}) {  // where the words of the mask begin
      const at::Tensor mask = at::rand({length + offset}).narrow(0, offset, length) < 0.3;
      const at::Tensor on_device =
          at::empty({length + offset}, mask.options().device(at::kCUDA)).narrow(0, offset, length);
      on_device.copy_(mask);
      const at::Tensor bits = hooks_internal::to_bits(on_device);
      EXPECT_TRUE(bitwise_equal(bits.cpu(), hooks_internal::to_bits(mask))) << length;
      EXPECT_TRUE(bitwise_equal(hooks_internal::from_bits(bits, length).cpu(), mask)) << length;
    }
  }
}

TEST_F(DeviceKernelsTest, QuantizedValuesAreThoseOfTheCpu) {
  quantized_cases::expect_bits_of_the_cpu(at::kCUDA, 100003);
}

TEST_F(DeviceKernelsTest, PreservesTheMeanOfRandomRounding) {
  at::Tensor x = at::full({20000, 100}, 0.3003, at::kCUDA);
  x.select(1, 0).fill_(1);
  for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kFloat8E4m3}) {
    const auto store =
        stores::quantized({.format = format, .block_size = 100, .stochastic_rounding = true});
    const at::Tensor first = store->put(x)->get().narrow(1, 1, 99);
    EXPECT_NEAR(first.mean(at::kDouble).item<double>(), 0.3003, 1e-4);
    EXPECT_EQ(std::get<0>(at::_unique2(first)).numel(), 2);
    // Neither the same draws again, nor the same for each block.
    EXPECT_FALSE(at::equal(store->put(x)->get().narrow(1, 1, 99), first));
    EXPECT_GT(first.std(0, false).min().item<double>(), 0);
  }
}

}  // namespace
}  // namespace reprise::device_kernels_test
