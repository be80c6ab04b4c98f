// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Thread-local state for the threads of a backward: LibTorch gives them that of the thread that
// calls it.
#ifndef REPRISE_HOOKS_SEAM_BACKWARD_SCOPE_H_
#define REPRISE_HOOKS_SEAM_BACKWARD_SCOPE_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// Called when a backward is about to begin, on the thread that calls it. The result, perhaps null,
// is destroyed there when the backward has ended.
using BackwardScopeMaker = std::shared_ptr<void> (*)();

// One per process. Serves backwards once the engine is installed, see forwarding_engine.h.
REPRISE_API void set_backward_scope_maker(BackwardScopeMaker maker);

// For a backward from `roots` that is run past the default engine, as Python's Tensor.backward()
// is: does what ours does when one begins. The result, perhaps null, is to be destroyed on this
// thread when that backward has ended. accumulates: it adds to the gradients of leaves.
[[nodiscard]] REPRISE_API std::shared_ptr<void> begin_backward(const std::vector<at::Tensor>& roots,
                                                               bool accumulates);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_BACKWARD_SCOPE_H_
