// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Launches the kernels of kernels.cu. Pointers are to device memory; each call puts one kernel on
// `stream`, of the current device, and returns the launch's status. Includes no header of
// LibTorch's tensors: nvcc reads this once per architecture.
#ifndef REPRISE_HOOKS_CUDA_KERNELS_H_
#define REPRISE_HOOKS_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "reprise/hooks/packing/element_math.h"

namespace reprise::hooks_internal::cuda {

// (length + 7) / 8 bytes of bits.
cudaError_t launch_pack_bits(const std::uint8_t* mask, std::int64_t length, std::uint8_t* bits,
                             cudaStream_t stream);
cudaError_t launch_unpack_bits(const std::uint8_t* bits, std::int64_t length, std::uint8_t* mask,
                               cudaStream_t stream);

enum class Element : std::uint8_t { kHalf, kBFloat16, kFloat, kDouble };

// `elements` in a row, in blocks, the last of which may be short.
struct Blocks {
  Element dtype;
  BlockFormat format;
  std::int64_t elements;
  std::int64_t block_size;

  [[nodiscard]] C10_HOST_DEVICE std::int64_t count() const {
    return (elements + block_size - 1) / block_size;
  }
};

// The state of a Philox generator. offset: in 32-bit numbers, a multiple of 4.
struct PhiloxState {
  std::uint64_t seed;
  std::uint64_t offset;
};

// Returns the increment of the offset.
std::uint64_t numbers_drawn(const Blocks& blocks);

// values: count() * block_size bytes, the last block padded with zeros. scales: count() floats,
// doubles if the dtype is. philox: null to round to nearest.
cudaError_t launch_quantize(const Blocks& blocks, const void* row, const PhiloxState* philox,
                            std::uint8_t* values, void* scales, cudaStream_t stream);
cudaError_t launch_dequantize(const Blocks& blocks, const std::uint8_t* values, const void* scales,
                              void* row, cudaStream_t stream);

}  // namespace reprise::hooks_internal::cuda

#endif  // REPRISE_HOOKS_CUDA_KERNELS_H_
