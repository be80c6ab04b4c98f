// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/variable_hooks.h"

#include <memory>

namespace reprise::hooks_internal {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

// LibTorch says whether there are hooks, but gives them to nobody. An explicit instantiation may
// name a private member.
using HooksMember = std::unique_ptr<SavedVariableHooks> SavedVariable::*;

HooksMember hooks_member();

template <HooksMember kMember>
struct GivesMember {
  friend HooksMember hooks_member() { return kMember; }
};
template struct GivesMember<&SavedVariable::hooks_>;

}  // namespace

const SavedVariableHooks* hooks_of(const SavedVariable& saved) {
  return (saved.*hooks_member()).get();
}

}  // namespace reprise::hooks_internal
