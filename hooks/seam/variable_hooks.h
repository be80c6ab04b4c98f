// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The hooks of a tensor that a node has saved, for reports, which must not call them.
#ifndef REPRISE_HOOKS_SEAM_VARIABLE_HOOKS_H_
#define REPRISE_HOOKS_SEAM_VARIABLE_HOOKS_H_

#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// Returns null without hooks. Valid as long as the node holds the tensor.
REPRISE_API const torch::autograd::SavedVariableHooks* hooks_of(
    const torch::autograd::SavedVariable& saved);

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_VARIABLE_HOOKS_H_
