// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// stores::packed().
#ifndef REPRISE_HOOKS_PACKING_PACKED_STORE_H_
#define REPRISE_HOOKS_PACKING_PACKED_STORE_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {

class PackedStore final : public ActivationStore {
 public:
  // next: null for none yet.
  PackedStore(stores::PackedOptions options, std::shared_ptr<ActivationStore> next)
      : options_(options), next_(std::move(next)) {}

  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                     const std::string& owner) override;
  bool copies_on_device(const at::Tensor& tensor) const override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

 private:
  bool is_packable(const at::Tensor& tensor) const;

  const stores::PackedOptions options_;
  const std::shared_ptr<ActivationStore> next_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_PACKING_PACKED_STORE_H_
