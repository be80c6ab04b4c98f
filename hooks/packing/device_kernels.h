// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Kernels of our own for packing and quantising on an accelerator, where LibTorch's operators would
// need several passes over memory. hooks/cuda/ implements them, hooks/no_cuda/ reports that there
// are none. All run on the current stream of the tensors' device, and none synchronises.
#ifndef REPRISE_HOOKS_PACKING_DEVICE_KERNELS_H_
#define REPRISE_HOOKS_PACKING_DEVICE_KERNELS_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {

struct Quantized;

// Returns whether the functions below support tensors of `device`; otherwise they must not be
// called.
bool has_kernels_for(c10::Device device);

// As to_bits() and from_bits() of bit_mask.h.
at::Tensor to_bits_on_device(const at::Tensor& mask);
at::Tensor from_bits_on_device(const at::Tensor& bits, std::int64_t length);

// As quantize() and dequantize() of block_quantization.h. With a generator, rounds stochastically
// and advances the generator.
Quantized quantize_on_device(const at::Tensor& row, const stores::QuantizedOptions& options,
                             std::optional<at::Generator> generator);
void dequantize_on_device(const Quantized& quantized, const at::Tensor& row);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_DEVICE_KERNELS_H_
