// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Booleans as bits.
#ifndef REPRISE_HOOKS_PACKING_BIT_MASK_H_
#define REPRISE_HOOKS_PACKING_BIT_MASK_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise::hooks_internal {

// Packs a bool tensor of one dimension without gaps into uint8, eight elements per byte, the first
// in the lowest bit. On the CPU with LibTorch's threads, elsewhere on the current stream.
at::Tensor to_bits(const at::Tensor& mask);

// The inverse, for `length` elements.
at::Tensor from_bits(const at::Tensor& bits, std::int64_t length);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_BIT_MASK_H_
