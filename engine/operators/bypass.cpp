// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/bypass.h"

#include <algorithm>

#include "reprise/hooks/seam/thread_stack.h"

namespace reprise::engine_internal {
namespace {

thread_local hooks_internal::ThreadStack<Bypass> t_bypasses;

}  // namespace

std::shared_ptr<hooks_internal::ThreadStackEntry> begin_bypass(Bypass bypass) {
  const Bypass* const around = t_bypasses.innermost();
  OperatorThread::current().may_be_bypassed = true;
  return t_bypasses.push(around == nullptr ? bypass : std::max(bypass, *around));
}

void end_bypass(hooks_internal::ThreadStackEntry& entry) noexcept { t_bypasses.end(entry); }

const Bypass* open_bypass() noexcept {
  const Bypass* const bypass = t_bypasses.innermost();
  OperatorThread::current().may_be_bypassed = bypass != nullptr;
  return bypass;
}

}  // namespace reprise::engine_internal
