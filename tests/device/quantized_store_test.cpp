// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Quantising by LibTorch's operators, as on devices without kernels of ours.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "reprise/hooks/stores.h"
#include "tests/device/device_cases.h"
#include "tests/hooks/quantized_cases.h"

namespace reprise::device_quantized_store_test {
namespace {

using namespace device_cases;  // NOLINT(google-build-using-namespace)
using stores::QuantizedFormat;

TEST(QuantizedByOperatorsTest, HasTheBitsOfTheCpu) {
  quantized_cases::expect_bits_of_the_cpu(test_device(), 4099);
}

TEST(QuantizedByOperatorsTest, PreservesTheMeanOfRandomRounding) {
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
