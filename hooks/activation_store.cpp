// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/activation_store.h"

#include <stdexcept>
#include <utility>

#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/memory_layout.h"

namespace reprise {

StoredTensor::~StoredTensor() = default;

at::Tensor StoredTensor::get_own() {
  const hooks_internal::UnseenScope unseen;
  const at::Tensor tensor = get();
  return hooks_internal::with_requires_grad(hooks_internal::own_copy(tensor),
                                            tensor.requires_grad());
}

ActivationStore::~ActivationStore() = default;

std::vector<std::unique_ptr<StoredTensor>> ActivationStore::put_all(
    const std::vector<at::Tensor>& tensors, const std::string& /*owner*/) {
  std::vector<std::unique_ptr<StoredTensor>> stored;
  stored.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    stored.push_back(put(tensor));
  }
  return stored;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): overriders store it
bool ActivationStore::copies_on_device(const at::Tensor& /*tensor*/) const { return false; }

std::shared_ptr<ActivationStore> ActivationStore::followed_by(std::shared_ptr<ActivationStore>) {
  throw std::invalid_argument(
      "[stores] this store passes no tensor to another one, so none can follow it; put it last in "
      "the chain");
}

std::shared_ptr<ActivationStore> operator|(const std::shared_ptr<ActivationStore>& first,
                                           std::shared_ptr<ActivationStore> next) {
  if (first == nullptr || next == nullptr) {
    throw std::invalid_argument("[stores] a chain of stores contains a null pointer");
  }
  return first->followed_by(std::move(next));
}

}  // namespace reprise
