// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/quantized_store.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/frexp.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/where.h>
#include <c10/core/GradMode.h>
#include <c10/util/DimVector.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "reprise/hooks/internal/hook_stack.h"
#include "reprise/hooks/internal/kept_tensor.h"
#include "reprise/hooks/internal/memory_layout.h"
#include "reprise/hooks/internal/next_store.h"
#include "reprise/hooks/internal/sparse_parts.h"

namespace reprise::hooks_internal {
namespace {

using stores::QuantizedFormat;
using stores::QuantizedOptions;

// The largest value of the format.
double largest(QuantizedFormat format) { return format == QuantizedFormat::kInt8 ? 127.0 : 448.0; }

bool is_quantizable(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat ||
         dtype == at::kDouble;
}

// In which to compute.
at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? dtype : at::kFloat; }

// To a multiple of `step`, up or down by chance.
at::Tensor round_by_chance(const at::Tensor& values, const at::Tensor& step,
                           const at::Generator& generator) {
  const at::Tensor chance = at::rand(values.sizes(), generator, values.options());
  return values.div(step).add_(chance).floor_().mul_(step);
}

// The distance between neighbours in float8_e4m3fn: 3 bits of mantissa, the least exponent -6.
at::Tensor float8_step(const at::Tensor& values) {
  const at::Tensor exponent = std::get<1>(at::frexp(values)).sub_(1).clamp_(-6, 8);
  return exponent.sub_(3).to(values.scalar_type()).exp2_();
}

at::Tensor to_format(const at::Tensor& scaled, const QuantizedOptions& options,
                     DeviceGenerators& generators) {
  const bool is_int8 = options.format == QuantizedFormat::kInt8;
  at::Tensor values = scaled;
  if (options.stochastic_rounding) {
    const at::Tensor step = is_int8 ? at::ones({}, scaled.options()) : float8_step(scaled);
    values = round_by_chance(scaled, step, generators.of(scaled.device()));
  } else if (is_int8) {
    values = scaled.round();
  }
  const double limit = largest(options.format);
  values = values.clamp(-limit, limit);
  return values.nan_to_num_(0.0).to(is_int8 ? at::kChar : at::kFloat8_e4m3fn);
}

struct Quantized {
  at::Tensor values;  // (blocks, block_size), the last one padded
  at::Tensor scales;  // (blocks, 1)
};

Quantized quantize(const at::Tensor& packed, const QuantizedOptions& options,
                   DeviceGenerators& generators) {
  const std::int64_t padding =
      (options.block_size - packed.numel() % options.block_size) % options.block_size;
  const at::Tensor row = in_a_row(packed).to(wide(packed.scalar_type()));
  const at::Tensor blocks =
      at::constant_pad_nd(row, {0, padding}, 0).view({-1, options.block_size});
  const at::Tensor scales = blocks.abs().amax(1, /*keepdim=*/true).div_(largest(options.format));
  const at::Tensor divisors = at::where(scales.eq(0), at::ones({}, scales.options()), scales);
  const at::Tensor values = to_format(blocks.div(divisors), options, generators);
  return {values, scales};
}

class QuantizedEntry final : public StoredTensor {
 public:
  QuantizedEntry(const at::Tensor& tensor, const Quantized& quantized, ActivationStore& next)
      : values_(next.put(quantized.values)),
        scales_(next.put(quantized.scales)),
        dtype_(tensor.scalar_type()),
        sizes_(tensor.sizes()),
        strides_(tensor.strides()),
        requires_grad_(tensor.requires_grad()) {}

  void prefetch() override {
    values_->prefetch();
    scales_->prefetch();
  }

  at::Tensor get() override {
    const at::NoGradGuard no_grad;
    const at::Tensor blocks = values_->get().to(wide(dtype_)).mul_(scales_->get());
    const at::Tensor packed = empty_packed(sizes_, strides_, blocks.options().dtype(dtype_));
    in_a_row(packed).copy_(blocks.view({-1}).narrow(0, 0, packed.numel()));
    return with_requires_grad(spread(packed, sizes_, strides_), requires_grad_);
  }

  [[nodiscard]] std::size_t device_bytes() const override {
    return values_->device_bytes() + scales_->device_bytes();
  }

 private:
  const std::unique_ptr<StoredTensor> values_;
  const std::unique_ptr<StoredTensor> scales_;
  const at::ScalarType dtype_;
  const c10::DimVector sizes_;
  const c10::DimVector strides_;
  const bool requires_grad_;
};

}  // namespace

at::Generator DeviceGenerators::of(c10::Device device) {
  const std::lock_guard lock(mutex_);
  at::Generator& generator = generators_[{device.type(), device.index()}];
  if (!generator.defined()) {
    generator = device.is_cpu() ? at::detail::createCPUGenerator()
                                : at::globalContext()
                                      .getAcceleratorHooksInterface(device.type())
                                      .getNewGenerator(device.index());
    generator.set_current_seed(seed_);
  }
  return generator;
}

std::unique_ptr<StoredTensor> QuantizedStore::put(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  if (is_sparse(tensor)) {
    return put_parts(*this, tensor);
  }
  const std::shared_ptr<ActivationStore> next = or_device(next_);
  if (!is_dense(tensor) || !is_quantizable(tensor.scalar_type()) || tensor.is_neg() ||
      tensor.numel() == 0 || tensor.nbytes() < options_.min_bytes) {
    return next->put(tensor);
  }
  const Quantized quantized =
      quantize(packed_elements(detached_alias(tensor)), options_, *generators_);
  return std::make_unique<QuantizedEntry>(tensor, quantized, *next);
}

std::shared_ptr<ActivationStore> QuantizedStore::followed_by(
    std::shared_ptr<ActivationStore> next) {
  return std::make_shared<QuantizedStore>(options_, generators_, appended(next_, std::move(next)));
}

}  // namespace reprise::hooks_internal

namespace reprise::stores {

std::shared_ptr<ActivationStore> quantized(QuantizedOptions options) {
  if (options.block_size < 1) {
    throw std::invalid_argument("[stores.quantized] block_size is " +
                                std::to_string(options.block_size) + "; it must be 1 or more");
  }
  return std::make_shared<hooks_internal::QuantizedStore>(
      options, std::make_shared<hooks_internal::DeviceGenerators>(options.seed), nullptr);
}

}  // namespace reprise::stores
