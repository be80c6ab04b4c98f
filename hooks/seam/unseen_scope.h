// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Hides from regions what stores, hooks and the engine itself run.
//
// Note [Unseen]: in a region, autograd records and saves, and the engine watches the operators,
// asks policies about them, and leaves writes to the outside out of replays. None of that may
// befall the operators of a store or a hook: they would be part of what the region computes, a
// store's write to its own memory would be left out in a replay, and a policy could be asked, and
// keep something in the store, while the store is at work. So each call of a store or a hook is
// made in an UnseenScope. Whatever watches a thread (saved-tensor hooks, the engine's interceptors,
// its operator log) notes the depth() at which it was set, and is blind at a greater one. A region
// that is entered, or replayed, inside a scope is set deeper itself, and sees its own operators.
#ifndef REPRISE_HOOKS_SEAM_UNSEEN_SCOPE_H_
#define REPRISE_HOOKS_SEAM_UNSEEN_SCOPE_H_

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::hooks_internal {

// While alive, this thread's operators are unseen: grad mode and autocast are off, and neither the
// saved-tensor hooks nor the regions around it take note of them.
class [[nodiscard]] REPRISE_API UnseenScope {
 public:
  UnseenScope();
  ~UnseenScope();
  UnseenScope(const UnseenScope&) = delete;
  UnseenScope& operator=(const UnseenScope&) = delete;

  // How many are alive on this thread.
  static int depth() noexcept { return depth_; }

 private:
  static constinit thread_local int depth_;

  const c10::NoGradGuard no_grad_;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast_;
};

// Shares `stored`, so that what it runs when it goes is unseen as well. Throws c10::Error if it is
// null.
REPRISE_API std::shared_ptr<StoredTensor> share_unseen(std::unique_ptr<StoredTensor> stored);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_UNSEEN_SCOPE_H_
