// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/packing/quantized_store.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <c10/util/DimVector.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/has_bytes.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/option_checks.h"
#include "reprise/hooks/stored/sparse_parts.h"

namespace reprise::hooks_internal {
namespace {

bool is_quantizable(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16 || dtype == at::kFloat ||
         dtype == at::kDouble;
}

class QuantizedEntry final : public StoredTensor {
 public:
  QuantizedEntry(const at::Tensor& tensor, std::unique_ptr<StoredTensor> values,
                 std::unique_ptr<StoredTensor> scales)
      : values_(std::move(values)),
        scales_(std::move(scales)),
        dtype_(tensor.scalar_type()),
        sizes_(tensor.sizes()),
        strides_(tensor.strides()),
        requires_grad_(tensor.requires_grad()) {}

  void prefetch() override {
    values_->prefetch();
    scales_->prefetch();
  }

  at::Tensor get() override {
    const UnseenScope unseen;
    const Quantized quantized{values_->get(), scales_->get()};
    const at::Tensor packed =
        empty_packed(sizes_, strides_, quantized.values.options().dtype(dtype_));
    dequantize(quantized, in_a_row(packed));
    return with_requires_grad(spread(packed, sizes_, strides_), requires_grad_);
  }

  at::Tensor get_own() override { return get(); }  // in new memory

  [[nodiscard]] std::int64_t device_bytes() const override {
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
  const std::pair key(device.type(), device.index());
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = generators_.find(key); found != generators_.end()) {
      return found->second;
    }
  }
  at::Generator made = device.is_cpu() ? at::detail::createCPUGenerator()
                                       : at::globalContext()
                                             .getAcceleratorHooksInterface(device.type())
                                             .getNewGenerator(device.index());
  made.set_current_seed(seed_);
  const std::lock_guard lock(mutex_);
  return generators_.try_emplace(key, made).first->second;  // another thread may have been first
}

std::unique_ptr<StoredTensor> QuantizedStore::put(const at::Tensor& tensor) {
  return std::move(put_all({tensor}, "").front());
}

std::vector<std::unique_ptr<StoredTensor>> QuantizedStore::put_all(
    const std::vector<at::Tensor>& tensors, const std::string& owner) {
  const UnseenScope unseen;
  std::vector<std::unique_ptr<StoredTensor>> stored(tensors.size());
  std::vector<at::Tensor> payloads;  // values and scales, or the unchanged tensor
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (is_sparse(tensors[i])) {
      stored[i] = put_parts(*this, tensors[i]);
    } else if (is_to_quantize(tensors[i])) {
      Quantized quantized = quantized_of(tensors[i]);
      payloads.push_back(std::move(quantized.values));
      payloads.push_back(std::move(quantized.scales));
    } else {
      payloads.push_back(tensors[i]);
    }
  }
  auto kept = or_device(next_)->put_all(payloads, owner);
  auto next = kept.begin();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (stored[i]) {
      continue;
    }
    stored[i] = std::move(*next++);
    if (is_to_quantize(tensors[i])) {
      stored[i] =
          std::make_unique<QuantizedEntry>(tensors[i], std::move(stored[i]), std::move(*next++));
    }
  }
  return stored;
}

bool QuantizedStore::is_to_quantize(const at::Tensor& tensor) const {
  return has_bytes(tensor) && is_quantizable(tensor.scalar_type()) && !tensor.is_neg() &&
         tensor.numel() > 0 && byte_count(tensor) >= options_.min_bytes;
}

Quantized QuantizedStore::quantized_of(const at::Tensor& tensor) const {
  const at::Tensor row = in_a_row(packed_elements(detached_alias(tensor)));
  return quantize(
      row, options_,
      options_.stochastic_rounding ? std::optional(generators_->of(row.device())) : std::nullopt);
}

bool QuantizedStore::copies_on_device(const at::Tensor& tensor) const {
  return is_to_quantize(tensor) || or_device(next_)->copies_on_device(tensor);
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
  hooks_internal::check_not_negative("stores.quantized", {{"min_bytes", options.min_bytes}});
  return std::make_shared<hooks_internal::QuantizedStore>(
      options, std::make_shared<hooks_internal::DeviceGenerators>(options.seed), nullptr);
}

}  // namespace reprise::stores
