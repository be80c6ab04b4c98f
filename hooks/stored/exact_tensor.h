// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_HOOKS_STORED_EXACT_TENSOR_H_
#define REPRISE_HOOKS_STORED_EXACT_TENSOR_H_

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::hooks_internal {

// A stored tensor whose get() returns the bytes that the store has read, perhaps after put().
class ExactTensor : public StoredTensor {
 public:
  // Returns false if it wraps a stored tensor of another kind.
  [[nodiscard]] virtual bool is_exact() const { return true; }
};

// Returns false for tensors of lossy stores, and of stores that users have written.
REPRISE_API bool is_exact(const StoredTensor& stored);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_EXACT_TENSOR_H_
