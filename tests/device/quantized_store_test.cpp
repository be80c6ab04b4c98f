// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Quantising by LibTorch's operators, which is what devices without kernels of ours do.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <optional>

#include "reprise/hooks/internal/block_quantization.h"
#include "reprise/hooks/stores.h"
#include "tests/device/device_cases.h"
#include "tests/testing/bitwise.h"

namespace reprise::device_quantized_store_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using hooks_internal::Quantized;
using stores::QuantizedFormat;
using stores::QuantizedOptions;
using testing::bitwise_equal;

TEST(QuantizedByOperators, HasTheBitsOfTheCpu) {
  torch::manual_seed(3);
  at::Tensor values = at::randn({4099}) * at::randn({4099}).mul_(3).exp_();
  values[5] = NAN;
  values[1700] = -INFINITY;
  values.narrow(0, 2000, 400).zero_();
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const at::Tensor row = values.to(dtype);
    for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kFloat8E4m3}) {
      for (const std::int64_t block_size : {1, 31, 128, 5000}) {
        SCOPED_TRACE(c10::str(dtype, ", blocks of ", block_size));
        const QuantizedOptions options{.format = format, .block_size = block_size};
        const Quantized expected = hooks_internal::quantize(row, options, std::nullopt);
        const Quantized found = hooks_internal::quantize(on_device(row), options, std::nullopt);
        EXPECT_TRUE(bitwise_equal(found.values.cpu(), expected.values));
        EXPECT_TRUE(at::equal(found.scales.cpu().nan_to_num(-1), expected.scales.nan_to_num(-1)));
        const at::Tensor back = at::empty_like(row);
        const at::Tensor back_on_device = on_device(back);
        hooks_internal::dequantize(expected, back);
        hooks_internal::dequantize(found, back_on_device);
        EXPECT_TRUE(at::equal(back_on_device.cpu().nan_to_num(-1), back.nan_to_num(-1)));
      }
    }
  }
}

TEST(QuantizedByOperators, ByChanceTheMeanIsRight) {
  at::Tensor x = at::full({2000, 100}, 0.3003);
  x.select(1, 0).fill_(1);
  for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kFloat8E4m3}) {
    const auto store =
        stores::quantized({.format = format, .block_size = 100, .stochastic_rounding = true});
    const at::Tensor found = store->put(on_device(x))->get().cpu().narrow(1, 1, 99);
    EXPECT_NEAR(found.mean(at::kDouble).item<double>(), 0.3003, 1e-4);
    EXPECT_EQ(std::get<0>(at::_unique2(found)).numel(), 2);
  }
}

}  // namespace
}  // namespace reprise::device_quantized_store_test
