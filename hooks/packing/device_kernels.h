// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What packing and quantising need of kernels of our own on an accelerator, where LibTorch's
// operators would pass over memory several times. hooks/cuda/ has them, hooks/no_cuda/ answers that
// there are none. All run on the current stream of the tensors' device, and none waits for it.
#ifndef REPRISE_HOOKS_PACKING_DEVICE_KERNELS_H_
#define REPRISE_HOOKS_PACKING_DEVICE_KERNELS_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {

struct Quantized;

// Whether the functions below serve tensors of `device`; else they must not be called.
bool has_kernels_for(c10::Device device);

// As to_bits() and from_bits() of bit_mask.h.
at::Tensor to_bits_on_device(const at::Tensor& mask);
at::Tensor from_bits_on_device(const at::Tensor& bits, std::int64_t length);

// As quantize() and dequantize() of block_quantization.h. With a generator rounds by chance, and
// moves the generator on.
Quantized quantize_on_device(const at::Tensor& row, const stores::QuantizedOptions& options,
                             std::optional<at::Generator> generator);
void dequantize_on_device(const Quantized& quantized, const at::Tensor& row);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_DEVICE_KERNELS_H_
