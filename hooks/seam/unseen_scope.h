// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Makes operators of stores, hooks and the engine itself invisible to regions.
//
// Note [Unseen]: in a region, autograd records and saves, and the engine observes operators, asks
// policies about them, and skips writes to outside tensors in replays. None of that may apply to
// the operators of a store or a hook: they would become part of the region's computation, a replay
// would skip a store's write to its own memory, and a policy could be asked, and put a tensor into
// the store, while the store is working. Each call of a store or a hook is therefore made in an
// UnseenScope. Each observer of a thread (saved-tensor hooks, the engine's interceptors, its
// operator log) records the depth() at which it was set, and ignores a greater one. A region that
// is entered, or replayed, inside a scope is set at the greater depth, and observes its own
// operators; likewise a region of torch.utils.checkpoint, by the hooks that it pushes.
#ifndef REPRISE_HOOKS_SEAM_UNSEEN_SCOPE_H_
#define REPRISE_HOOKS_SEAM_UNSEEN_SCOPE_H_

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstddef>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::hooks_internal {

// While alive, this thread's operators are unseen: grad mode and autocast are off, and the
// saved-tensor hooks and regions around them ignore them.
class [[nodiscard]] REPRISE_API UnseenScope {
 public:
  UnseenScope();
  ~UnseenScope();
  UnseenScope(const UnseenScope&) = delete;
  UnseenScope& operator=(const UnseenScope&) = delete;

  // Returns the number of scopes alive on this thread.
  static int depth() noexcept { return t_thread_.depth; }
  // Returns where this thread finds its depth() without a look-up of a thread-local variable.
  static const int* depth_of_thread() noexcept { return &t_thread_.depth; }

  // Returns whether saved-tensor hooks of LibTorch itself (Python's) have been pushed inside the
  // innermost scope.
  static bool has_new_foreign_hooks();

 private:
  struct Thread {
    int depth = 0;
    std::size_t foreign_hooks = 0;  // when the innermost scope began
  };
  static constinit thread_local Thread t_thread_;

  Thread& thread_;
  const std::size_t outer_foreign_hooks_;
  const c10::NoGradGuard no_grad_;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast_;
};

// Returns a shared pointer to `stored` whose destruction is unseen as well. Throws c10::Error if it
// is null.
REPRISE_API std::shared_ptr<StoredTensor> share_unseen(std::unique_ptr<StoredTensor> stored);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_UNSEEN_SCOPE_H_
