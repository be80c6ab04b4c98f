// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/packing/block_quantization.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "reprise/hooks/packing/device_kernels.h"
#include "reprise/hooks/packing/element_math.h"

namespace reprise::hooks_internal {
namespace {

using stores::QuantizedFormat;
using stores::QuantizedOptions;

constexpr std::int64_t kElementsATask = 1 << 13;

// The dtype for computation.
at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? dtype : at::kFloat; }

at::ScalarType dtype_of(QuantizedFormat format) {
  return format == QuantizedFormat::kInt8 ? at::kChar : at::kFloat8_e4m3fn;
}

std::int64_t number_of_blocks(const at::Tensor& row, const QuantizedOptions& options) {
  return (row.numel() + options.block_size - 1) / options.block_size;
}

template <class T>
void quantize_block(const T* from, std::int64_t count, BlockFormat format, const WideOf<T>* chance,
                    std::uint8_t* to, WideOf<T>* scale) {
  using Wide = WideOf<T>;
  Wide greatest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    greatest = larger(greatest, std::abs(static_cast<Wide>(from[i])));
  }
  *scale = greatest / static_cast<Wide>(largest(format));
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = quantized_bits(static_cast<Wide>(from[i]), *scale, format,
                           chance != nullptr ? chance[i] : Wide{-1});
  }
}

// `chances` are as many as the values, or none.
template <class T>
void quantize_on_cpu(const at::Tensor& row, const at::Tensor& chances, const Quantized& to) {
  using Wide = WideOf<T>;
  const BlockFormat format = to.format();
  const std::int64_t size = to.values.size(1);
  const auto* const from = static_cast<const T*>(row.const_data_ptr());
  const auto* const chance =
      chances.defined() ? static_cast<const Wide*>(chances.const_data_ptr()) : nullptr;
  auto* const values = static_cast<std::uint8_t*>(to.values.mutable_data_ptr());
  auto* const scales = to.scales.mutable_data_ptr<Wide>();
  const std::int64_t grain = std::max<std::int64_t>(1, kElementsATask / size);
  at::parallel_for(0, to.values.size(0), grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t first = block * size;
      const std::int64_t count = std::min(size, row.numel() - first);
      quantize_block(from + first, count, format, chance != nullptr ? chance + first : nullptr,
                     values + first, scales + block);
      std::fill(values + first + count, values + first + size, std::uint8_t{0});
    }
  });
}

Quantized quantize_on_cpu(const at::Tensor& row, const QuantizedOptions& options,
                          const std::optional<at::Generator>& generator) {
  Quantized quantized = empty_quantized(row, options);
  const at::Tensor chances =
      generator ? at::rand(quantized.values.sizes(), generator, quantized.scales.options())
                : at::Tensor();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, row.scalar_type(), "reprise::quantize",
                                  [&] { quantize_on_cpu<scalar_t>(row, chances, quantized); });
  return quantized;
}

template <class T>
void dequantize_on_cpu(const Quantized& quantized, const at::Tensor& row) {
  using Wide = WideOf<T>;
  const std::int64_t size = quantized.values.size(1);
  const BlockFormat format = quantized.format();
  const auto* const values = static_cast<const std::uint8_t*>(quantized.values.const_data_ptr());
  const auto* const scales = static_cast<const Wide*>(quantized.scales.const_data_ptr());
  auto* const to = row.mutable_data_ptr<T>();
  at::parallel_for(0, row.numel(), kElementsATask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<T>(dequantized(values[i], scales[i / size], format));
    }
  });
}

// The following functions implement element_math.h by operators, on any device.

// Rounds to a multiple of `step`, up or down at random.
at::Tensor round_by_chance(const at::Tensor& values, const at::Tensor& step,
                           const at::Generator& generator) {
  const at::Tensor chance = at::rand(values.sizes(), generator, values.options());
  return values.div(step).add_(chance).floor_().mul_(step);
}

at::Tensor float8_steps(const at::Tensor& values) {
  const at::Tensor exponent = std::get<1>(at::frexp(values)).sub_(1).clamp_(-6, 8);
  return exponent.sub_(3).to(values.scalar_type()).exp2_();
}

at::Tensor rounded(const at::Tensor& scaled, BlockFormat format,
                   const std::optional<at::Generator>& generator) {
  const bool is_int8 = format == BlockFormat::kInt8;
  if (generator) {
    const at::Tensor step = is_int8 ? at::ones({}, scaled.options()) : float8_steps(scaled);
    return round_by_chance(scaled, step, *generator);
  }
  return is_int8 ? scaled.round() : scaled;
}

Quantized quantize_by_operators(const at::Tensor& row, const QuantizedOptions& options,
                                const std::optional<at::Generator>& generator) {
  const Quantized quantized = empty_quantized(row, options);
  const at::Tensor& scales = quantized.scales;
  const std::int64_t padding = quantized.values.numel() - row.numel();
  const at::Tensor blocks = at::constant_pad_nd(row.to(scales.scalar_type()), {0, padding}, 0)
                                .view(quantized.values.sizes());
  const BlockFormat format = quantized.format();
  const double limit = largest(format);
  scales.copy_(blocks.abs().amax(1, /*keepdim=*/true)).div_(limit);
  const at::Tensor divisors = at::where(scales.eq(0), at::ones({}, scales.options()), scales);
  quantized.values.copy_(
      rounded(blocks.div(divisors), format, generator).clamp(-limit, limit).nan_to_num_(0.0));
  return quantized;
}

void dequantize_by_operators(const Quantized& quantized, const at::Tensor& row) {
  const at::Tensor blocks =
      quantized.values.to(quantized.scales.scalar_type()).mul_(quantized.scales);
  row.copy_(blocks.view({-1}).narrow(0, 0, row.numel()));
}

}  // namespace

BlockFormat Quantized::format() const {
  return values.scalar_type() == dtype_of(QuantizedFormat::kInt8) ? BlockFormat::kInt8
                                                                  : BlockFormat::kFloat8E4m3;
}

Quantized empty_quantized(const at::Tensor& row, const QuantizedOptions& options) {
  const std::int64_t count = number_of_blocks(row, options);
  return {at::empty({count, options.block_size}, row.options().dtype(dtype_of(options.format))),
          at::empty({count, 1}, row.options().dtype(wide(row.scalar_type())))};
}

Quantized quantize(const at::Tensor& row, const QuantizedOptions& options,
                   std::optional<at::Generator> generator) {
  if (row.is_cpu()) {
    return quantize_on_cpu(row, options, generator);
  }
  return has_kernels_for(row.device()) ? quantize_on_device(row, options, std::move(generator))
                                       : quantize_by_operators(row, options, generator);
}

void dequantize(const Quantized& quantized, const at::Tensor& row) {
  if (row.is_cpu()) {
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, row.scalar_type(),
                                    "reprise::dequantize",
                                    [&] { dequantize_on_cpu<scalar_t>(quantized, row); });
  } else if (has_kernels_for(row.device())) {
    dequantize_on_device(quantized, row);
  } else {
    dequantize_by_operators(quantized, row);
  }
}

}  // namespace reprise::hooks_internal
