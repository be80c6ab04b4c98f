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

constinit thread_local int UnseenScope::t_depth_ = 0;
constinit thread_local std::size_t UnseenScope::t_foreign_hooks_ = 0;

UnseenScope::UnseenScope()
    : outer_foreign_hooks_(std::exchange(t_foreign_hooks_, count_foreign_hooks())),
      no_autocast_(c10::autocast_dispatch_keyset) {
  ++t_depth_;
}

UnseenScope::~UnseenScope() {
  --t_depth_;
  t_foreign_hooks_ = outer_foreign_hooks_;
}

bool UnseenScope::has_new_foreign_hooks() { return count_foreign_hooks() > t_foreign_hooks_; }

std::shared_ptr<StoredTensor> share_unseen(std::unique_ptr<StoredTensor> stored) {
  TORCH_CHECK(stored != nullptr, "[stores] a store's put() returned a null pointer");
  return {stored.release(), [](StoredTensor* tensor) {
            const UnseenScope unseen;
            delete tensor;
          }};
}

}  // namespace reprise::hooks_internal
