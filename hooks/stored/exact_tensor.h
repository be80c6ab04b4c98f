// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_HOOKS_STORED_EXACT_TENSOR_H_
#define REPRISE_HOOKS_STORED_EXACT_TENSOR_H_

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::hooks_internal {

// A stored tensor of which get() returns the bytes that its store has read, which may be later than
// put() returns.
class ExactTensor : public StoredTensor {};

// Returns whether it is one.
REPRISE_API bool is_exact(const StoredTensor& stored);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_EXACT_TENSOR_H_
