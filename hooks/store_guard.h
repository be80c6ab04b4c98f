// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: store_guard.h
//
// Keeps what autograd saves in a store between forward and backward. Around regions, it is their
// inputs that go there, and what policies keep through saved-tensor hooks.
//
// Not for choosing operator by operator: that is a policy's work.
//
// Example:
//
//   {
//     reprise::StoreGuard guard(reprise::stores::packed());
//     loss = model->forward(x).sum();
//   }
//   loss.backward();
//
// Thread-safety: as SavedTensorHooksGuard. The store may be shared by guards and threads.
#ifndef REPRISE_HOOKS_STORE_GUARD_H_
#define REPRISE_HOOKS_STORE_GUARD_H_

#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise {

namespace hooks_internal {
class HookScope;
}  // namespace hooks_internal

struct StoreGuardOptions {
  // When backward asks for a tensor, the store starts to bring this many back that were saved
  // before it. 0: each comes when it is asked for. Negative is an error.
  int prefetch_depth = 1;
};

// While alive, tensors that autograd saves on this thread go to `store`. Guards nest; only the
// innermost applies. Parameters (leaves that require grad, and views of them) stay where they are,
// because they live on anyway; changing one in place before backward is a c10::Error at backward,
// as without the guard. Throws std::invalid_argument for a null store or a negative depth,
// c10::Error if hooks are disabled on this thread. What the store throws surfaces at the operator,
// or at backward.
class [[nodiscard]] REPRISE_API StoreGuard {
 public:
  explicit StoreGuard(std::shared_ptr<ActivationStore> store, StoreGuardOptions options = {});
  ~StoreGuard();
  StoreGuard(const StoreGuard&) = delete;
  StoreGuard& operator=(const StoreGuard&) = delete;

 private:
  std::unique_ptr<hooks_internal::HookScope> scope_;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_STORE_GUARD_H_
