// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Floating-point numbers as one byte per element and one scale per block.
#ifndef REPRISE_HOOKS_PACKING_BLOCK_QUANTIZATION_H_
#define REPRISE_HOOKS_PACKING_BLOCK_QUANTIZATION_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>

#include "reprise/hooks/packing/element_math.h"
#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {

struct Quantized {
  at::Tensor values;  // (blocks, block_size), the last one padded; int8 or float8_e4m3fn
  at::Tensor scales;  // (blocks, 1), float32, or float64 if the row was

  [[nodiscard]] BlockFormat format() const;
};

// Returns an unfilled result for a row as below.
Quantized empty_quantized(const at::Tensor& row, const stores::QuantizedOptions& options);

// row: one dimension without gaps, not empty, of float16, bfloat16, float32 or float64. Draws from
// `generator`, of the row's device, for stochastic rounding; rounds to nearest without one. In one
// pass on the CPU and on devices with kernels of ours, otherwise by LibTorch's operators; without a
// generator the bits are the same everywhere.
Quantized quantize(const at::Tensor& row, const stores::QuantizedOptions& options,
                   std::optional<at::Generator> generator);

// Writes to `row`, of the original dtype and length.
void dequantize(const Quantized& quantized, const at::Tensor& row);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_BLOCK_QUANTIZATION_H_
