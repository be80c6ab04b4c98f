// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/policy_bypass.h"

#include <variant>

#include "reprise/engine/operators/bypass.h"
#include "reprise/hooks/seam/thread_stack.h"

namespace reprise {
namespace {

thread_local hooks_internal::ThreadStack<std::monostate> t_bypasses;

}  // namespace

PolicyBypassGuard::PolicyBypassGuard() : entry_(t_bypasses.push({})) {}
PolicyBypassGuard::~PolicyBypassGuard() { t_bypasses.end(*entry_); }

namespace engine_internal {

bool is_bypassed() noexcept { return t_bypasses.innermost() != nullptr; }

}  // namespace engine_internal
}  // namespace reprise
