// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stores.h"

#include "reprise/hooks/stored/kept_tensor.h"

namespace reprise::stores {
namespace {

class DeviceStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    return std::make_unique<hooks_internal::KeptTensor>(tensor);
  }
};

}  // namespace

std::shared_ptr<ActivationStore> device() {
  static const auto kStore = std::make_shared<DeviceStore>();
  return kStore;
}

}  // namespace reprise::stores
