// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/unseen_scope.h"

#include <c10/util/Exception.h>

namespace reprise::hooks_internal {

constinit thread_local int UnseenScope::t_depth_ = 0;

UnseenScope::UnseenScope() : no_autocast_(c10::autocast_dispatch_keyset) { ++t_depth_; }

UnseenScope::~UnseenScope() { --t_depth_; }

std::shared_ptr<StoredTensor> share_unseen(std::unique_ptr<StoredTensor> stored) {
  TORCH_CHECK(stored != nullptr, "[stores] a store's put() returned a null pointer");
  return {stored.release(), [](StoredTensor* tensor) {
            const UnseenScope unseen;
            delete tensor;
          }};
}

}  // namespace reprise::hooks_internal
