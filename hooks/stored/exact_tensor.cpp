// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/exact_tensor.h"

namespace reprise::hooks_internal {

bool is_exact(const StoredTensor& stored) {
  const auto* const exact = dynamic_cast<const ExactTensor*>(&stored);
  return exact != nullptr && exact->is_exact();
}

}  // namespace reprise::hooks_internal
