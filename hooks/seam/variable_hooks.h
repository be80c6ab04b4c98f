// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The hooks of tensors that nodes have saved, for reports, which must not call them.
#ifndef REPRISE_HOOKS_SEAM_VARIABLE_HOOKS_H_
#define REPRISE_HOOKS_SEAM_VARIABLE_HOOKS_H_

#include <c10/core/SafePyObject.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <optional>
#include <utility>

#include "reprise/base/export.h"

namespace reprise::hooks_internal {

// Returns null without hooks. Valid as long as the node holds the tensor.
REPRISE_API const torch::autograd::SavedVariableHooks* hooks_of(
    const torch::autograd::SavedVariable& saved);

// While alive, this thread lists saved tensors: LibTorch's visitor of a node, which is made for
// compiled autograd, passes by those whose hooks are ListedHooks.
class [[nodiscard]] HookListing {
 public:
  REPRISE_API HookListing();
  REPRISE_API ~HookListing();
  HookListing(const HookListing&) = delete;
  HookListing& operator=(const HookListing&) = delete;
};

// Base of Reprise's hooks.
class REPRISE_API ListedHooks : public torch::autograd::SavedVariableHooks {
 public:
  // Outside of a HookListing throws, as LibTorch's own does: this is not for compiled autograd.
  std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>> retrieve_unpack_hook_data()
      const override;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_VARIABLE_HOOKS_H_
