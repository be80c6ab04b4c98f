// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The code of this thread whose operators are excluded from policies, and from the records of tapes
// besides.
#ifndef REPRISE_ENGINE_OPERATORS_BYPASS_H_
#define REPRISE_ENGINE_OPERATORS_BYPASS_H_

#include <cstdint>
#include <memory>

#include "reprise/engine/operators/operator_thread.h"

namespace reprise::hooks_internal {
class ThreadStackEntry;
}  // namespace reprise::hooks_internal

namespace reprise::engine_internal {

enum class Bypass : std::uint8_t { kPolicies, kPoliciesAndTapes };

// The bypass lasts until end_bypass().
std::shared_ptr<hooks_internal::ThreadStackEntry> begin_bypass(Bypass bypass);
void end_bypass(hooks_internal::ThreadStackEntry& entry) noexcept;

// Returns the widest of the open bypasses; null if there is none.
const Bypass* open_bypass() noexcept;

// The same, fast where there is none.
inline const Bypass* current_bypass() noexcept {
  return OperatorThread::current().may_be_bypassed ? open_bypass() : nullptr;
}

inline bool is_bypassed() noexcept { return current_bypass() != nullptr; }

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_BYPASS_H_
