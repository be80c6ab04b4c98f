// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The store that another one forwards to; null while there is none.
#ifndef REPRISE_HOOKS_STORED_NEXT_STORE_H_
#define REPRISE_HOOKS_STORED_NEXT_STORE_H_

#include <memory>
#include <utility>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/stores.h"

namespace reprise::hooks_internal {

// Returns `next`, or, without one, a store that leaves the tensor where it is.
inline std::shared_ptr<ActivationStore> or_device(const std::shared_ptr<ActivationStore>& next) {
  return next ? next : stores::device();
}

// Returns `next` followed by `last`.
inline std::shared_ptr<ActivationStore> appended(const std::shared_ptr<ActivationStore>& next,
                                                 std::shared_ptr<ActivationStore> last) {
  return next ? next | std::move(last) : std::move(last);
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_NEXT_STORE_H_
