// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Aliases of tensors, and the version by which a modification in place is noticed.
#ifndef REPRISE_HOOKS_STORAGE_ALIAS_H_
#define REPRISE_HOOKS_STORAGE_ALIAS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::hooks_internal {

// Returns an alias without graph that requires grad as specified.
inline at::Tensor with_requires_grad(const at::Tensor& tensor, bool requires_grad) {
  at::Tensor alias = detached_alias(tensor);
  return requires_grad ? alias.set_requires_grad(true) : alias;
}

// Returns the tensor's version; 0 for an inference tensor, which has none.
inline std::int64_t version_of(const at::Tensor& tensor) {
  const c10::VariableVersion& counter = tensor.unsafeGetTensorImpl()->version_counter();
  return counter.enabled() ? counter.current_version() : 0;
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_ALIAS_H_
