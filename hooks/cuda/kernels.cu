// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/cuda/kernels.h"

// The second needs the first, and does not include it.
// clang-format off
#include <c10/util/Exception.h>
#include <ATen/core/PhiloxRNGEngine.h>
// clang-format on
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <type_traits>

namespace reprise::hooks_internal::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kLanes = 32;
constexpr std::int64_t kMostBlocks = 1 << 16;  // per grid; each thread continues after its end

// One thread per number below `count`, or per several of them.
unsigned grid_for(std::int64_t count) {
  return static_cast<unsigned>(std::min(kMostBlocks, (count + kThreads - 1) / kThreads));
}

__device__ std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

__device__ std::int64_t threads_in_grid() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

__device__ bool is_for_words(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(std::uint64_t) == 0;
}

__device__ int bytes_at(std::int64_t first, std::int64_t length) {
  return length - first < 8 ? static_cast<int>(length - first) : 8;
}

__global__ void pack_bits(const std::uint8_t* mask, std::int64_t length, std::uint8_t* bits) {
  const bool by_words = is_for_words(mask);
  for (std::int64_t byte = thread_number(); 8 * byte < length; byte += threads_in_grid()) {
    const int count = bytes_at(8 * byte, length);
    bits[byte] =
        bits_of_bytes(by_words && count == 8 ? reinterpret_cast<const std::uint64_t*>(mask)[byte]
                                             : load_bytes(mask + 8 * byte, count));
  }
}

__global__ void unpack_bits(const std::uint8_t* bits, std::int64_t length, std::uint8_t* mask) {
  const bool by_words = is_for_words(mask);
  for (std::int64_t byte = thread_number(); 8 * byte < length; byte += threads_in_grid()) {
    const int count = bytes_at(8 * byte, length);
    const std::uint64_t bytes = bytes_of_bits(bits[byte]);
    if (by_words && count == 8) {
      reinterpret_cast<std::uint64_t*>(mask)[byte] = bytes;
    } else {
      store_bytes(bytes, mask + 8 * byte, count);
    }
  }
}

template <class Wide>
__device__ Wide largest_of_warp(Wide value) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = larger(value, __shfl_xor_sync(0xffffffffU, value, distance));
  }
  return value;
}

template <class T>
__device__ WideOf<T> scale_of_block(const T* row, std::int64_t begin, std::int64_t end, int lane,
                                    BlockFormat format) {
  using Wide = WideOf<T>;
  Wide greatest = 0;
  for (std::int64_t i = begin + lane; i < end; i += kLanes) {
    greatest = larger(greatest, std::abs(static_cast<Wide>(row[i])));
  }
  return largest_of_warp(greatest) / static_cast<Wide>(largest(format));
}

// The end of a block's elements; padding may follow.
__device__ std::int64_t end_of(const Blocks& blocks, std::int64_t block) {
  const std::int64_t end = (block + 1) * blocks.block_size;
  return end < blocks.elements ? end : blocks.elements;
}

// One warp per block.
template <class T>
__global__ void quantize(Blocks blocks, const T* row, bool by_chance, PhiloxState philox,
                         std::uint8_t* values, WideOf<T>* scales) {
  using Wide = WideOf<T>;
  const std::int64_t thread = thread_number();
  const int lane = static_cast<int>(thread % kLanes);
  at::philox_engine engine(philox.seed, thread, philox.offset / 4);
  const std::int64_t count = blocks.count();
  for (std::int64_t block = thread / kLanes; block < count; block += threads_in_grid() / kLanes) {
    const std::int64_t begin = block * blocks.block_size;
    const std::int64_t end = end_of(blocks, block);
    const Wide scale = scale_of_block(row, begin, end, lane, blocks.format);
    if (lane == 0) {
      scales[block] = scale;
    }
    for (std::int64_t i = begin + lane; i < begin + blocks.block_size; i += kLanes) {
      const Wide chance = by_chance ? static_cast<Wide>(engine() >> 8) / (1 << 24) : Wide{-1};
      values[i] =
          i < end ? quantized_bits(static_cast<Wide>(row[i]), scale, blocks.format, chance) : 0;
    }
  }
}

// One warp per block, which saves a division per element.
template <class T>
__global__ void dequantize(Blocks blocks, const std::uint8_t* values, const WideOf<T>* scales,
                           T* row) {
  const std::int64_t thread = thread_number();
  const std::int64_t count = blocks.count();
  for (std::int64_t block = thread / kLanes; block < count; block += threads_in_grid() / kLanes) {
    const std::int64_t begin = block * blocks.block_size;
    const std::int64_t end = end_of(blocks, block);
    for (std::int64_t i = begin + thread % kLanes; i < end; i += kLanes) {
      row[i] = static_cast<T>(dequantized(values[i], scales[block], blocks.format));
    }
  }
}

std::int64_t threads_for(const Blocks& blocks) { return blocks.count() * kLanes; }

// Calls `launch` with a null pointer of the dtype's C++ type.
template <class Launch>
void with_element(Element dtype, const Launch& launch) {
  switch (dtype) {
    case Element::kHalf:
      return launch(static_cast<c10::Half*>(nullptr));
    case Element::kBFloat16:
      return launch(static_cast<c10::BFloat16*>(nullptr));
    case Element::kFloat:
      return launch(static_cast<float*>(nullptr));
    case Element::kDouble:
      return launch(static_cast<double*>(nullptr));
  }
}

}  // namespace

cudaError_t launch_pack_bits(const std::uint8_t* mask, std::int64_t length, std::uint8_t* bits,
                             cudaStream_t stream) {
  pack_bits<<<grid_for((length + 7) / 8), kThreads, 0, stream>>>(mask, length, bits);
  return cudaGetLastError();
}

cudaError_t launch_unpack_bits(const std::uint8_t* bits, std::int64_t length, std::uint8_t* mask,
                               cudaStream_t stream) {
  unpack_bits<<<grid_for((length + 7) / 8), kThreads, 0, stream>>>(bits, length, mask);
  return cudaGetLastError();
}

std::uint64_t numbers_drawn(const Blocks& blocks) {
  const std::int64_t warps = grid_for(threads_for(blocks)) * (kThreads / kLanes);
  const std::int64_t blocks_a_warp = (blocks.count() + warps - 1) / warps;
  const std::int64_t a_block = (blocks.block_size + kLanes - 1) / kLanes;
  return static_cast<std::uint64_t>((blocks_a_warp * a_block + 3) / 4 * 4);
}

cudaError_t launch_quantize(const Blocks& blocks, const void* row, const PhiloxState* philox,
                            std::uint8_t* values, void* scales, cudaStream_t stream) {
  with_element(blocks.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    quantize<T><<<grid_for(threads_for(blocks)), kThreads, 0, stream>>>(
        blocks, static_cast<const T*>(row), philox != nullptr,
        philox != nullptr ? *philox : PhiloxState{0, 0}, values, static_cast<WideOf<T>*>(scales));
  });
  return cudaGetLastError();
}

cudaError_t launch_dequantize(const Blocks& blocks, const std::uint8_t* values, const void* scales,
                              void* row, cudaStream_t stream) {
  with_element(blocks.dtype, [&](auto* element) {
    using T = std::remove_pointer_t<decltype(element)>;
    dequantize<T><<<grid_for(threads_for(blocks)), kThreads, 0, stream>>>(
        blocks, values, static_cast<const WideOf<T>*>(scales), static_cast<T*>(row));
  });
  return cudaGetLastError();
}

}  // namespace reprise::hooks_internal::cuda
