// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/operator_trace.h"

#include <algorithm>

namespace reprise::engine_internal {

std::shared_ptr<const OperatorTrace::Kept> OperatorTrace::kept() const {
  const absl::MutexLock lock(&mutex_);
  const auto is_mutated = [](const auto& entry) {
    return std::any_of(entry.second.begin(), entry.second.end(),
                       [](const KeptResult& result) { return result.is_mutated(); });
  };
  const bool unusable =
      kept_ && allow_mutation_ && std::any_of(kept_->begin(), kept_->end(), is_mutated);
  return unusable ? nullptr : kept_;
}

void OperatorTrace::drop_kept() {
  std::shared_ptr<Kept> dropped;  // freed after the lock
  const absl::MutexLock lock(&mutex_);
  dropped.swap(kept_);
}

}  // namespace reprise::engine_internal
