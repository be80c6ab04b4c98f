// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: store_guard.h
//
// Puts the tensors that autograd saves into a store between forward and backward. Around regions,
// it receives their inputs, and the results that policies save through saved-tensor hooks.
//
// Not for decisions per operator: use a policy.
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
  // The number of tensors, saved before the one that backward asks for, to prefetch then. 0: none.
  // Must not be negative.
  int prefetch_depth = 1;
};

// While alive, puts tensors that autograd saves on this thread into `store`. Guards nest; only the
// innermost applies. Parameters (leaves that require grad, and views of them) stay where they are,
// because they outlive the graph anyway; modifying one in place before backward is a c10::Error at
// backward, as without the guard. The store receives a tensor that requires grad while it is saved,
// and another one when its contents are final: when this thread saves a tensor for another
// operator, at the end of the guard, or when backward asks for it.
//
// Throws: std::invalid_argument for a null store or a negative depth; c10::Error if hooks are
//   disabled on this thread. Exceptions of the store surface at the operator, at a later
//   one, or at backward.
class [[nodiscard]] REPRISE_API StoreGuard {
 public:
  [[nodiscard]] explicit StoreGuard(std::shared_ptr<ActivationStore> store,
                                    StoreGuardOptions options = {});
  ~StoreGuard();
  StoreGuard(const StoreGuard&) = delete;
  StoreGuard& operator=(const StoreGuard&) = delete;

 private:
  std::unique_ptr<hooks_internal::HookScope> scope_;
};

}  // namespace reprise

#endif  // REPRISE_HOOKS_STORE_GUARD_H_
