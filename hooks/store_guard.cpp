// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/store_guard.h"

#include <c10/core/GradMode.h>

#include <cstddef>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/hooks/internal/hook_stack.h"
#include "reprise/hooks/internal/kept_tensor.h"

namespace reprise {
namespace {

using hooks_internal::HookProvider;
using hooks_internal::HookScope;
using hooks_internal::KeptTensor;
using hooks_internal::SavedVariableHooks;

// The tensors of a guard in the order in which they were put, which backward asks for in reverse.
class PutOrder {
 public:
  explicit PutOrder(int prefetch_depth) : prefetch_depth_(prefetch_depth) {}

  std::size_t add(const std::shared_ptr<StoredTensor>& stored) {
    const std::lock_guard lock(mutex_);
    stored_.push_back(stored);
    return stored_.size() - 1;
  }

  // The tensor at `position` is about to be asked for. Those that nobody needs any more do not
  // count.
  void prefetch(std::size_t position) {
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

 private:
  const int prefetch_depth_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<StoredTensor>> stored_;
};

class StoreHooks final : public SavedVariableHooks {
 public:
  StoreHooks(std::shared_ptr<ActivationStore> store, std::shared_ptr<PutOrder> order)
      : store_(std::move(store)), order_(std::move(order)) {}

  void call_pack_hook(const at::Tensor& tensor) override {
    if (hooks_internal::is_parameter(tensor)) {
      stored_ = std::make_shared<KeptTensor>(tensor);
    } else {
      stored_ = store_->put(hooks_internal::detached_alias(tensor));
      position_ = order_->add(stored_);
    }
    store_.reset();
  }

  at::Tensor call_unpack_hook() override {
    const at::NoGradGuard no_grad;
    if (position_) {
      order_->prefetch(*position_);
    }
    return stored_->get();
  }

 private:
  std::shared_ptr<ActivationStore> store_;
  std::shared_ptr<PutOrder> order_;
  std::shared_ptr<StoredTensor> stored_;
  std::optional<std::size_t> position_;  // none for a parameter
};

class StoreProvider final : public HookProvider {
 public:
  StoreProvider(std::shared_ptr<ActivationStore> store, int prefetch_depth)
      : store_(std::move(store)), order_(std::make_shared<PutOrder>(prefetch_depth)) {}
  std::unique_ptr<SavedVariableHooks> make_hooks() override {
    return std::make_unique<StoreHooks>(store_, order_);
  }

 private:
  std::shared_ptr<ActivationStore> store_;
  std::shared_ptr<PutOrder> order_;
};

std::shared_ptr<HookProvider> make_provider(std::shared_ptr<ActivationStore> store,
                                            const StoreGuardOptions& options) {
  if (store == nullptr) {
    throw std::invalid_argument("[StoreGuard] the store is a null pointer");
  }
  if (options.prefetch_depth < 0) {
    throw std::invalid_argument("[StoreGuard] prefetch_depth is negative: " +
                                std::to_string(options.prefetch_depth));
  }
  return std::make_shared<StoreProvider>(std::move(store), options.prefetch_depth);
}

}  // namespace

StoreGuard::StoreGuard(std::shared_ptr<ActivationStore> store, StoreGuardOptions options)
    : scope_(std::make_unique<HookScope>(make_provider(std::move(store), options))) {}

StoreGuard::~StoreGuard() = default;

}  // namespace reprise
