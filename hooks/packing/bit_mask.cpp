// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/packing/bit_mask.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "reprise/hooks/packing/device_kernels.h"
#include "reprise/hooks/packing/element_math.h"

namespace reprise::hooks_internal {
namespace {

constexpr std::int64_t kGrain = 1 << 15;  // bytes of bits per task

// The number of the `length` elements in this byte of bits.
int bytes_at(std::int64_t byte, std::int64_t length) {
  return static_cast<int>(std::min<std::int64_t>(8, length - 8 * byte));
}

at::Tensor to_bits_on_cpu(const at::Tensor& mask) {
  const std::int64_t length = mask.numel();
  at::Tensor bits = at::empty({(length + 7) / 8}, mask.options().dtype(at::kByte));
  const auto* const from = static_cast<const std::uint8_t*>(mask.const_data_ptr());
  auto* const to = bits.mutable_data_ptr<std::uint8_t>();
  at::parallel_for(0, bits.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t byte = begin; byte < end; ++byte) {
      to[byte] = bits_of_bytes(load_bytes(from + 8 * byte, bytes_at(byte, length)));
    }
  });
  return bits;
}

at::Tensor from_bits_on_cpu(const at::Tensor& bits, std::int64_t length) {
  at::Tensor mask = at::empty({length}, bits.options().dtype(at::kBool));
  const auto* const from = static_cast<const std::uint8_t*>(bits.const_data_ptr());
  auto* const to = static_cast<std::uint8_t*>(mask.mutable_data_ptr());
  at::parallel_for(0, bits.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t byte = begin; byte < end; ++byte) {
      store_bytes(bytes_of_bits(from[byte]), to + 8 * byte, bytes_at(byte, length));
    }
  });
  return mask;
}

// 0 to 7, after the whole bytes.
at::Tensor bit_numbers(const at::Tensor& like) {
  return at::arange(8, like.options().dtype(at::kByte));
}

}  // namespace

at::Tensor to_bits(const at::Tensor& mask) {
  if (mask.is_cpu()) {
    return to_bits_on_cpu(mask);
  }
  if (has_kernels_for(mask.device())) {
    return to_bits_on_device(mask);
  }
  const std::int64_t bytes = (mask.numel() + 7) / 8;
  at::Tensor padded = at::zeros({8 * bytes}, mask.options().dtype(at::kByte));
  padded.narrow(0, 0, mask.numel()).copy_(mask);
  return padded.view({bytes, 8}).bitwise_left_shift_(bit_numbers(mask)).sum(1, false, at::kByte);
}

at::Tensor from_bits(const at::Tensor& bits, std::int64_t length) {
  if (bits.is_cpu()) {
    return from_bits_on_cpu(bits, length);
  }
  if (has_kernels_for(bits.device())) {
    return from_bits_on_device(bits, length);
  }
  const at::Tensor spread = bits.unsqueeze(1).bitwise_right_shift(bit_numbers(bits));
  return spread.bitwise_and(1).to(at::kBool).flatten().narrow(0, 0, length);
}

}  // namespace reprise::hooks_internal
