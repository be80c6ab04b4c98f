// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/variable_hooks.h"

#include <memory>
#include <optional>
#include <utility>

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

thread_local int t_listings = 0;

}  // namespace

HookListing::HookListing() { ++t_listings; }
HookListing::~HookListing() { --t_listings; }

std::optional<std::pair<c10::SafePyObject, c10::SafePyObject>>
ListedHooks::retrieve_unpack_hook_data() const {
  if (t_listings == 0) {
    return SavedVariableHooks::retrieve_unpack_hook_data();
  }
  return std::pair{c10::SafePyObject(nullptr, nullptr), c10::SafePyObject(nullptr, nullptr)};
}

const SavedVariableHooks* hooks_of(const SavedVariable& saved) {
  return (saved.*hooks_member()).get();
}

}  // namespace reprise::hooks_internal
