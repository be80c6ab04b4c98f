// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/policy_bypass.h"

#include <variant>

#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/operators/operator_thread.h"
#include "reprise/hooks/seam/thread_stack.h"

namespace reprise {
namespace {

thread_local hooks_internal::ThreadStack<std::monostate> t_bypasses;

}  // namespace

PolicyBypassGuard::PolicyBypassGuard() : entry_(t_bypasses.push({})) {
  engine_internal::OperatorThread::current().may_be_bypassed = true;
}
PolicyBypassGuard::~PolicyBypassGuard() { t_bypasses.end(*entry_); }

namespace engine_internal {

bool has_open_bypass() noexcept {
  const bool is_open = t_bypasses.innermost() != nullptr;
  OperatorThread::current().may_be_bypassed = is_open;
  return is_open;
}

}  // namespace engine_internal
}  // namespace reprise
