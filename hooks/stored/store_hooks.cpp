// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/store_hooks.h"

#include <c10/util/Exception.h>

#include <utility>

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/stored/deferred_tensor.h"
#include "reprise/hooks/stored/kept_tensor.h"

namespace reprise::hooks_internal {

std::size_t PutOrder::add(const std::shared_ptr<StoredTensor>& stored) {
  const std::lock_guard lock(mutex_);
  stored_.push_back(stored);
  return stored_.size() - 1;
}

void PutOrder::prefetch(std::size_t position) {
  const UnseenScope unseen;
  std::vector<std::shared_ptr<StoredTensor>> next;
  {
    const std::lock_guard lock(mutex_);
    const std::size_t wanted = static_cast<std::size_t>(prefetch_depth_) + 1;
    for (std::size_t i = position + 1; i > 0 && next.size() < wanted; --i) {
      if (auto stored = stored_[i - 1].lock()) {
        next.push_back(std::move(stored));
      }
    }
  }
  for (const auto& stored : next) {
    stored->prefetch();
  }
}

StoreHooks::StoreHooks(std::shared_ptr<ActivationStore> store, std::shared_ptr<PutOrder> order)
    : store_(std::move(store)), order_(std::move(order)) {}

std::vector<std::unique_ptr<StoreHooks>> StoreHooks::pack_all(
    const std::shared_ptr<ActivationStore>& store, const std::vector<at::Tensor>& tensors,
    const std::string& owner) {
  const UnseenScope unseen;
  std::vector<std::unique_ptr<StoreHooks>> hooks;
  std::vector<at::Tensor> to_put;
  for (const at::Tensor& tensor : tensors) {
    hooks.push_back(std::make_unique<StoreHooks>(nullptr));
    if (is_parameter(tensor)) {
      hooks.back()->stored_ = std::make_shared<KeptTensor>(tensor);
    } else if (tensor.has_storage() && store->copies_on_device(tensor)) {
      hooks.back()->stored_ = put_or_defer(store, detached_alias(tensor));
    } else {
      to_put.push_back(detached_alias(tensor));
    }
  }
  if (to_put.empty()) {
    return hooks;
  }
  auto stored = store->put_all(to_put, owner);
  TORCH_CHECK(stored.size() == to_put.size(), "[stores] a store's put_all() was given ",
              to_put.size(), " tensors, and returned ", stored.size());
  auto next = stored.begin();
  for (const auto& hook : hooks) {
    if (hook->stored_ == nullptr) {
      hook->stored_ = share_unseen(std::move(*next++));
    }
  }
  return hooks;
}

void StoreHooks::call_pack_hook(const at::Tensor& tensor) {
  observe_pack(tensor);
  const UnseenScope unseen;
  if (is_parameter(tensor)) {
    stored_ = std::make_shared<KeptTensor>(tensor);
  } else {
    const bool is_final = tensor.requires_grad();  // see Note [Final contents]
    stored_ = put_or_defer(store_, detached_alias(tensor),
                           is_final ? nullptr : tensor.unsafeGetTensorImpl());
    if (order_) {
      position_ = order_->add(stored_);
    }
  }
  store_.reset();
}

at::Tensor StoreHooks::call_unpack_hook() {
  const UnseenScope unseen;
  if (position_) {
    order_->prefetch(*position_);
  }
  return stored_->get();
}

}  // namespace reprise::hooks_internal
