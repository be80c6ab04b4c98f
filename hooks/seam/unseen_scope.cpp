// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/unseen_scope.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/util/Exception.h>

#include <utility>

namespace reprise::hooks_internal {
namespace {

std::size_t count_foreign_hooks() {
  return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

}  // namespace

constinit thread_local UnseenScope::Thread UnseenScope::t_thread_;

UnseenScope::UnseenScope()
    : thread_(t_thread_),
      outer_foreign_hooks_(std::exchange(thread_.foreign_hooks, count_foreign_hooks())),
      no_autocast_(c10::autocast_dispatch_keyset) {
  ++thread_.depth;
}

UnseenScope::~UnseenScope() {
  --thread_.depth;
  thread_.foreign_hooks = outer_foreign_hooks_;
}

bool UnseenScope::has_new_foreign_hooks() {
  return count_foreign_hooks() > t_thread_.foreign_hooks;
}

std::shared_ptr<StoredTensor> share_unseen(std::unique_ptr<StoredTensor> stored) {
  TORCH_CHECK(stored != nullptr, "[stores] a store's put() returned a null pointer");
  return {stored.release(), [](StoredTensor* tensor) {
            const UnseenScope unseen;
            delete tensor;
          }};
}

}  // namespace reprise::hooks_internal
