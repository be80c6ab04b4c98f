// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a region holds for backward, for reports.
#ifndef REPRISE_ENGINE_KEPT_HELD_VALUE_H_
#define REPRISE_ENGINE_KEPT_HELD_VALUE_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/engine/kept/kept_result.h"
#include "reprise/engine/kept/region_input.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::engine_internal {

// A tensor, or the form of one in a store. Its bytes are not asked for here: stores are users'
// code.
struct HeldValue {
  at::Tensor tensor;
  std::shared_ptr<StoredTensor> stored;
  const char* why = "";
  std::string op;  // that made it; empty: unknown
};

using HeldValues = std::vector<HeldValue>;

// Each appends what is held. Slots of a region around hold nothing by themselves; others' hooks are
// left out.
REPRISE_API void append_held(const torch::autograd::SavedVariableHooks& hooks, const char* why,
                             HeldValues& held);
void append_held(const RegionInput& input, const char* why, HeldValues& held);
void append_held(const KeptResult& result, const char* why, HeldValues& held);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_KEPT_HELD_VALUE_H_
