// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// That a device quantises as the CPU does, whichever way it has to do so.
#ifndef REPRISE_TESTS_HOOKS_QUANTIZED_CASES_H_
#define REPRISE_TESTS_HOOKS_QUANTIZED_CASES_H_

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <optional>

#include "reprise/hooks/packing/block_quantization.h"
#include "reprise/hooks/stores.h"
#include "tests/testing/bitwise.h"

namespace reprise::quantized_cases {

// Rounded to nearest: each dtype and format, and blocks of several sizes, one with a NaN, one with
// an infinity and one of zeros.
inline void expect_bits_of_the_cpu(at::Device device, std::int64_t length) {
  using hooks_internal::Quantized;
  using stores::QuantizedFormat;
  torch::manual_seed(3);
  const at::Tensor values = at::randn({length}) * at::randn({length}).mul_(3).exp_();
  values[5] = NAN;
  values[length * 7 / 10] = -INFINITY;
  values.narrow(0, length / 2, length / 10).zero_();
  for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble}) {
    const at::Tensor row = values.to(dtype);
    for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kFloat8E4m3}) {
      for (const std::int64_t block_size : {1, 31, 128, 5000}) {
        SCOPED_TRACE(c10::str(dtype, ", blocks of ", block_size));
        const stores::QuantizedOptions options{.format = format, .block_size = block_size};
        const Quantized expected = hooks_internal::quantize(row, options, std::nullopt);
        const Quantized found = hooks_internal::quantize(row.to(device), options, std::nullopt);
        EXPECT_TRUE(testing::bitwise_equal(found.values.cpu(), expected.values));
        EXPECT_TRUE(at::equal(found.scales.cpu().nan_to_num(-1), expected.scales.nan_to_num(-1)));
        const at::Tensor back = at::empty_like(row);
        const at::Tensor back_on_device = back.to(device);
        hooks_internal::dequantize(expected, back);
        hooks_internal::dequantize(found, back_on_device);
        EXPECT_TRUE(at::equal(back_on_device.cpu().nan_to_num(-1), back.nan_to_num(-1)));
      }
    }
  }
}

}  // namespace reprise::quantized_cases

#endif  // REPRISE_TESTS_HOOKS_QUANTIZED_CASES_H_
