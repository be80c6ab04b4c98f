// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/saved_tensor_hooks.h"

#include <ATen/SavedTensorHooks.h>

#include <utility>

#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/packer.h"

namespace reprise {
using hooks_internal::HookScope;

SavedTensorHooksGuard::SavedTensorHooksGuard(std::shared_ptr<hooks_internal::TensorPacker> packer,
                                             Private /*tag*/)
    : scope_(std::make_unique<HookScope>(hooks_internal::make_packer_provider(std::move(packer)))) {
}

SavedTensorHooksGuard::~SavedTensorHooksGuard() = default;

DisableSavedTensorHooksGuard::DisableSavedTensorHooksGuard(const std::string& message)
    : previous_message_(at::SavedTensorDefaultHooks::get_disabled_error_message()) {
  TORCH_CHECK(hooks_internal::innermost_provider() == nullptr, message);
  at::SavedTensorDefaultHooks::disable(message);
}

DisableSavedTensorHooksGuard::~DisableSavedTensorHooksGuard() {
  if (previous_message_) {
    at::SavedTensorDefaultHooks::disable(*previous_message_, /*fail_if_non_empty=*/false);
  } else {
    at::SavedTensorDefaultHooks::enable();
  }
}

}  // namespace reprise
