// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// stores::quantized().
#ifndef REPRISE_HOOKS_PACKING_QUANTIZED_STORE_H_
#define REPRISE_HOOKS_PACKING_QUANTIZED_STORE_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/packing/block_quantization.h"
#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {

// One generator per device, made on first use.
class DeviceGenerators {
 public:
  explicit DeviceGenerators(std::uint64_t seed) : seed_(seed) {}
  at::Generator of(c10::Device device);

 private:
  const std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceType, c10::DeviceIndex>, at::Generator> generators_;
};

class QuantizedStore final : public ActivationStore {
 public:
  // next: null for none yet.
  QuantizedStore(stores::QuantizedOptions options, std::shared_ptr<DeviceGenerators> generators,
                 std::shared_ptr<ActivationStore> next)
      : options_(options), generators_(std::move(generators)), next_(std::move(next)) {}

  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                     const std::string& owner) override;
  bool copies_on_device(const at::Tensor& tensor) const override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

 private:
  bool is_to_quantize(const at::Tensor& tensor) const;
  Quantized quantized_of(const at::Tensor& tensor) const;

  const stores::QuantizedOptions options_;
  const std::shared_ptr<DeviceGenerators> generators_;
  const std::shared_ptr<ActivationStore> next_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_QUANTIZED_STORE_H_
