// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/store_guard.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/stored/deferred_tensor.h"
#include "reprise/hooks/stored/store_hooks.h"

namespace reprise {
namespace {

using hooks_internal::HookProvider;
using hooks_internal::HookScope;
using hooks_internal::PutOrder;
using hooks_internal::SavedVariableHooks;
using hooks_internal::StoreHooks;

class StoreProvider final : public HookProvider {
 public:
  StoreProvider(std::shared_ptr<ActivationStore> store, int prefetch_depth)
      : store_(std::move(store)), order_(std::make_shared<PutOrder>(prefetch_depth)) {}
  std::unique_ptr<SavedVariableHooks> make_hooks() override {
    return std::make_unique<StoreHooks>(store_, order_);
  }
  bool may_copy() const override { return false; }

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

StoreGuard::~StoreGuard() {
  scope_.reset();
  const hooks_internal::UnseenScope unseen;
  hooks_internal::put_waiting();
}

}  // namespace reprise
