// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The arithmetic of packing and quantising on single elements: the same code on the CPU and in CUDA
// kernels, with bitwise equal results.
#ifndef REPRISE_HOOKS_PACKING_ELEMENT_MATH_H_
#define REPRISE_HOOKS_PACKING_ELEMENT_MATH_H_

#include <c10/macros/Macros.h>
#include <c10/util/Float8_e4m3fn.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace reprise::hooks_internal {

// Returns eight bytes, the first in the lowest bits; if `count` is less, zeros follow.
C10_HOST_DEVICE inline std::uint64_t load_bytes(const std::uint8_t* from, int count) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    bytes |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  }
  return bytes;
}

C10_HOST_DEVICE inline void store_bytes(std::uint64_t bytes, std::uint8_t* to, int count) {
  for (int i = 0; i < count; ++i) {
    to[i] = static_cast<std::uint8_t>(bytes >> (8 * i));
  }
}

// Returns 1 in each byte that is not 0.
C10_HOST_DEVICE inline std::uint64_t nonzero_bytes(std::uint64_t bytes) {
  constexpr std::uint64_t kLowBits = 0x7f7f7f7f7f7f7f7fU;
  return ((((bytes & kLowBits) + kLowBits) | bytes) & ~kLowBits) >> 7;
}

// Returns one bit per byte, the first the lowest: the product moves byte k's 1 to bit 56 + k, and
// no two of its terms meet.
C10_HOST_DEVICE inline std::uint8_t bits_of_bytes(std::uint64_t bytes) {
  return static_cast<std::uint8_t>((nonzero_bytes(bytes) * 0x0102040810204080U) >> 56);
}

// The inverse: 0 or 1 in each byte.
C10_HOST_DEVICE inline std::uint64_t bytes_of_bits(std::uint8_t bits) {
  return nonzero_bytes((bits * 0x0101010101010101U) & 0x8040201008040201U);
}

// The type for computation.
template <class T>
using WideOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Returns the larger value; a NaN is larger than anything.
template <class Wide>
C10_HOST_DEVICE Wide larger(Wide a, Wide b) {
  return b > a || std::isnan(b) ? b : a;
}

enum class BlockFormat : std::uint8_t { kInt8, kFloat8E4m3 };

// The largest value of the format.
C10_HOST_DEVICE constexpr int largest(BlockFormat format) {
  return format == BlockFormat::kInt8 ? 127 : 448;
}

// Returns the distance of `value` from its next neighbour in float8_e4m3fn: 3 bits of mantissa,
// exponents from -6 to 8.
template <class Wide>
C10_HOST_DEVICE Wide float8_step(Wide value) {
  int exponent = 0;
  static_cast<void>(std::frexp(larger(std::abs(value), Wide{0.015625}), &exponent));
  return std::ldexp(Wide{1}, (exponent - 1 < 8 ? exponent - 1 : 8) - 3);
}

// Returns an element in units of its block's scale, as the bits of `format`. chance: from [0, 1),
// for stochastic rounding; below 0 to round to nearest. NaNs become 0: their block's scale is NaN
// as well.
template <class Wide>
C10_HOST_DEVICE std::uint8_t quantized_bits(Wide value, Wide scale, BlockFormat format,
                                            Wide chance) {
  Wide scaled = value / (scale == 0 ? Wide{1} : scale);
  if (chance >= 0) {
    const Wide step = format == BlockFormat::kInt8 ? Wide{1} : float8_step(scaled);
    scaled = std::floor(scaled / step + chance) * step;
  } else if (format == BlockFormat::kInt8) {
    scaled = std::rint(scaled);
  }
  if (std::isnan(scaled)) {
    return 0;
  }
  const Wide limit = static_cast<Wide>(largest(format));
  scaled = scaled < -limit ? -limit : (scaled > limit ? limit : scaled);
  return format == BlockFormat::kInt8 ? static_cast<std::uint8_t>(static_cast<std::int8_t>(scaled))
                                      : c10::Float8_e4m3fn(static_cast<float>(scaled)).x;
}

template <class Wide>
C10_HOST_DEVICE Wide dequantized(std::uint8_t bits, Wide scale, BlockFormat format) {
  const Wide scaled = format == BlockFormat::kInt8
                          ? static_cast<Wide>(static_cast<std::int8_t>(bits))
                          : static_cast<Wide>(static_cast<float>(
                                c10::Float8_e4m3fn(bits, c10::Float8_e4m3fn::from_bits())));
  return scaled * scale;
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_ELEMENT_MATH_H_
