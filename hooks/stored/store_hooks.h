// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Saved-tensor hooks that put a tensor into a store.
#ifndef REPRISE_HOOKS_STORED_STORE_HOOKS_H_
#define REPRISE_HOOKS_STORED_STORE_HOOKS_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/seam/variable_hooks.h"

namespace reprise::hooks_internal {

// Stored tensors in order; backward asks for them in reverse.
class PutOrder {
 public:
  explicit PutOrder(int prefetch_depth) : prefetch_depth_(prefetch_depth) {}

  // Returns the tensor's position.
  std::size_t add(const std::shared_ptr<StoredTensor>& stored);

  // The tensor at `position` is about to be requested: starts to fetch it, and the tensors before
  // it. Tensors that are no longer needed do not count.
  void prefetch(std::size_t position);

 private:
  const int prefetch_depth_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<StoredTensor>> stored_;
};

// Parameters stay where they are.
class REPRISE_API StoreHooks final : public ListedHooks {
 public:
  // order: what to prefetch with it; null for nothing.
  explicit StoreHooks(std::shared_ptr<ActivationStore> store,
                      std::shared_ptr<PutOrder> order = nullptr);

  // Packs `tensors`, with one call of the store for all that it receives. owner: see
  // ActivationStore::put_all().
  static std::vector<std::unique_ptr<StoreHooks>> pack_all(
      const std::shared_ptr<ActivationStore>& store, const std::vector<at::Tensor>& tensors,
      const std::string& owner);

  void call_pack_hook(const at::Tensor& tensor) override;
  at::Tensor call_unpack_hook() override;
  // When packed.
  const std::shared_ptr<StoredTensor>& stored() const { return stored_; }

 private:
  std::shared_ptr<ActivationStore> store_;  // until a tensor is packed
  std::shared_ptr<PutOrder> order_;
  std::shared_ptr<StoredTensor> stored_;
  std::optional<std::size_t> position_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_STORE_HOOKS_H_
