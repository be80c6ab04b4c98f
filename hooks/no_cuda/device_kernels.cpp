// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/packing/device_kernels.h"

#include <c10/util/Exception.h>

#include "reprise/hooks/packing/block_quantization.h"

namespace reprise::hooks_internal {
namespace {

[[noreturn]] void not_built() {
  C10_THROW_ERROR(NotImplementedError,
                  "[hooks.device_kernels] Reprise was built without CUDA kernels; received a call "
                  "of one; ask has_kernels_for() first");
}

}  // namespace

bool has_kernels_for(c10::Device /*device*/) { return false; }

at::Tensor to_bits_on_device(const at::Tensor& /*mask*/) { not_built(); }

at::Tensor from_bits_on_device(const at::Tensor& /*bits*/, std::int64_t /*length*/) { not_built(); }

Quantized quantize_on_device(const at::Tensor& /*row*/, const stores::QuantizedOptions& /*options*/,
                             std::optional<at::Generator> /*generator*/) {
  not_built();
}

void dequantize_on_device(const Quantized& /*quantized*/, const at::Tensor& /*row*/) {
  not_built();
}

}  // namespace reprise::hooks_internal
