// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/kept/held_value.h"

#include "reprise/hooks/stored/kept_tensor.h"
#include "reprise/hooks/stored/store_hooks.h"

namespace reprise::engine_internal {
namespace {

void append(const at::Tensor& tensor, const std::shared_ptr<StoredTensor>& stored, const char* why,
            HeldValues& held) {
  if (stored != nullptr) {
    const at::Tensor kept = hooks_internal::kept_alias(*stored);
    held.push_back(
        {.tensor = kept, .stored = kept.defined() ? nullptr : stored, .why = why, .op = {}});
  } else if (tensor.defined()) {
    held.push_back({.tensor = tensor, .stored = nullptr, .why = why, .op = {}});
  }
}

}  // namespace

void append_held(const torch::autograd::SavedVariableHooks& hooks, const char* why,
                 HeldValues& held) {
  if (const auto* const stored = dynamic_cast<const hooks_internal::StoreHooks*>(&hooks)) {
    append({}, stored->stored(), why, held);
  }
}

void append_held(const RegionInput& input, const char* why, HeldValues& held) {
  if (input.packed() != nullptr) {
    append_held(*input.packed(), why, held);
  } else {
    append(input.alias(), nullptr, why, held);
  }
}

void append_held(const KeptResult& result, const char* why, HeldValues& held) {
  if (result.packed != nullptr) {
    append_held(*result.packed, why, held);
  } else {
    append(result.alias, result.stored, why, held);
  }
}

}  // namespace reprise::engine_internal
