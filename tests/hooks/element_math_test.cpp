// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The arithmetic that CUDA kernels share with the CPU, element by element.
#include "reprise/hooks/packing/element_math.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace reprise::element_math_test {
namespace {

using namespace hooks_internal;  // NOLINT(google-build-using-namespace): what is tested

constexpr auto kInt8 = BlockFormat::kInt8;
constexpr auto kFloat8 = BlockFormat::kFloat8E4m3;
constexpr float kNearest = -1;

TEST(ElementMathTest, CompressesByteForEachPatternOfEightBytes) {
  for (int pattern = 0; pattern < 256; ++pattern) {
    for (const int truth : {1, 2, 0x80, 0xff}) {
      std::uint8_t bytes[8];
      for (int i = 0; i < 8; ++i) {
        bytes[i] = static_cast<std::uint8_t>(((pattern >> i) & 1) * truth);
      }
      EXPECT_EQ(bits_of_bytes(load_bytes(bytes, 8)), pattern);
    }
    std::uint8_t back[8];
    store_bytes(bytes_of_bits(static_cast<std::uint8_t>(pattern)), back, 8);
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(back[i], (pattern >> i) & 1);
    }
  }
}

TEST(ElementMathTest, LastBytesOfARowAreFollowedByZeros) {
  const std::uint8_t bytes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(bits_of_bytes(load_bytes(bytes, 3)), 0b111);
  std::uint8_t back[4] = {9, 9, 9, 9};
  store_bytes(bytes_of_bits(0b101), back, 3);
  EXPECT_EQ(std::vector<int>(back, back + 4), (std::vector<int>{1, 0, 1, 9}));
}

TEST(ElementMathTest, RanksNanAboveAnything) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(larger(2.0F, 3.0F), 3.0F);
  EXPECT_EQ(larger(3.0F, 2.0F), 3.0F);
  EXPECT_TRUE(std::isnan(larger(nan, 2.0F)));
  EXPECT_TRUE(std::isnan(larger(2.0F, nan)));
}

std::int8_t as_int8(float value, float scale, float chance) {
  return static_cast<std::int8_t>(quantized_bits(value, scale, kInt8, chance));
}

TEST(ElementMathTest, Int8RoundsToNearestTiesToEven) {
  EXPECT_EQ(as_int8(2.5F, 1, kNearest), 2);
  EXPECT_EQ(as_int8(3.5F, 1, kNearest), 4);
  EXPECT_EQ(as_int8(-2.6F, 1, kNearest), -3);
  EXPECT_EQ(as_int8(1000, 1, kNearest), 127);
  EXPECT_EQ(as_int8(-1000, 1, kNearest), -127);
  EXPECT_EQ(as_int8(0, 0, kNearest), 0);
}

TEST(ElementMathTest, RoundsUpOrDownAtRandom) {
  EXPECT_EQ(as_int8(2.25F, 1, 0.74F), 2);
  EXPECT_EQ(as_int8(2.25F, 1, 0.75F), 3);
  EXPECT_EQ(as_int8(-2.25F, 1, 0.24F), -3);
  EXPECT_EQ(as_int8(-2.25F, 1, 0.25F), -2);
  EXPECT_EQ(as_int8(2, 1, 0.99F), 2);
}

float through_float8(float value, float chance) {
  return dequantized(quantized_bits(value, 1.0F, kFloat8, chance), 1.0F, kFloat8);
}

TEST(ElementMathTest, Float8IsLibTorchsAndItsStepTheDistanceOfNeighbours) {
  const at::Tensor bits = at::arange(0, 127, at::kByte);  // 0 and all positive numbers
  const at::Tensor numbers = bits.view(at::kFloat8_e4m3fn).to(at::kFloat);
  const auto* const number = static_cast<const float*>(numbers.const_data_ptr());
  for (int i = 0; i + 1 < 127; ++i) {
    const float step = number[i + 1] - number[i];
    EXPECT_EQ(float8_step(number[i]), step) << number[i];
    EXPECT_EQ(through_float8(number[i], kNearest), number[i]);
    EXPECT_EQ(through_float8(number[i], 0.99F), number[i]);
    EXPECT_EQ(through_float8(number[i] + step / 4, kNearest), number[i]);
    EXPECT_EQ(through_float8(number[i] + step / 4, 0.5F), number[i]);
    EXPECT_EQ(through_float8(number[i] + step / 4, 0.75F), number[i + 1]);
  }
  EXPECT_EQ(through_float8(1e9F, kNearest), 448);
  EXPECT_EQ(through_float8(-1e9F, 0.5F), -448);
}

}  // namespace
}  // namespace reprise::element_math_test
