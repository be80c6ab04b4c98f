// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/stored/exact_tensor.h"

namespace reprise::hooks_internal {

bool is_exact(const StoredTensor& stored) {
  return dynamic_cast<const ExactTensor*>(&stored) != nullptr;
}

}  // namespace reprise::hooks_internal
