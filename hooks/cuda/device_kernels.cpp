// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/packing/device_kernels.h"

#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <mutex>
#include <optional>

#include "reprise/hooks/cuda/kernels.h"
#include "reprise/hooks/packing/block_quantization.h"

namespace reprise::hooks_internal {
namespace {

using cuda::Blocks;
using cuda::Element;
using cuda::PhiloxState;

std::uint8_t* bytes_of(const at::Tensor& tensor) {
  return static_cast<std::uint8_t*>(tensor.mutable_data_ptr());
}

Element element_of(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return Element::kHalf;
    case at::kBFloat16:
      return Element::kBFloat16;
    case at::kDouble:
      return Element::kDouble;
    default:
      return Element::kFloat;
  }
}

Blocks blocks_of(const at::Tensor& row, const Quantized& quantized) {
  return {element_of(row.scalar_type()), quantized.format(), row.numel(), quantized.values.size(1)};
}

// Returns the generator's state, and advances it by the draws of the blocks.
PhiloxState take_state(at::Generator& generator, const Blocks& blocks) {
  const std::lock_guard lock(generator.mutex());
  const PhiloxState state{generator.current_seed(), generator.get_offset()};
  generator.set_offset(state.offset + cuda::numbers_drawn(blocks));
  return state;
}

}  // namespace

bool has_kernels_for(c10::Device device) { return device.is_cuda(); }

at::Tensor to_bits_on_device(const at::Tensor& mask) {
  const c10::DeviceGuard guard(mask.device());
  at::Tensor bits = at::empty({(mask.numel() + 7) / 8}, mask.options().dtype(at::kByte));
  C10_CUDA_CHECK(cuda::launch_pack_bits(static_cast<const std::uint8_t*>(mask.const_data_ptr()),
                                        mask.numel(), bytes_of(bits),
                                        c10::cuda::getCurrentCUDAStream()));
  return bits;
}

at::Tensor from_bits_on_device(const at::Tensor& bits, std::int64_t length) {
  const c10::DeviceGuard guard(bits.device());
  at::Tensor mask = at::empty({length}, bits.options().dtype(at::kBool));
  C10_CUDA_CHECK(cuda::launch_unpack_bits(static_cast<const std::uint8_t*>(bits.const_data_ptr()),
                                          length, bytes_of(mask),
                                          c10::cuda::getCurrentCUDAStream()));
  return mask;
}

Quantized quantize_on_device(const at::Tensor& row, const stores::QuantizedOptions& options,
                             std::optional<at::Generator> generator) {
  const c10::DeviceGuard guard(row.device());
  Quantized quantized = empty_quantized(row, options);
  const Blocks blocks = blocks_of(row, quantized);
  std::optional<PhiloxState> philox;
  if (generator) {
    philox = take_state(*generator, blocks);
  }
  C10_CUDA_CHECK(cuda::launch_quantize(
      blocks, row.const_data_ptr(), philox ? &*philox : nullptr, bytes_of(quantized.values),
      quantized.scales.mutable_data_ptr(), c10::cuda::getCurrentCUDAStream()));
  return quantized;
}

void dequantize_on_device(const Quantized& quantized, const at::Tensor& row) {
  const c10::DeviceGuard guard(row.device());
  C10_CUDA_CHECK(cuda::launch_dequantize(blocks_of(row, quantized), bytes_of(quantized.values),
                                         quantized.scales.const_data_ptr(), row.mutable_data_ptr(),
                                         c10::cuda::getCurrentCUDAStream()));
}

}  // namespace reprise::hooks_internal
