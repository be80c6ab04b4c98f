// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Returns whether the operators of this thread are excluded from policies.
#ifndef REPRISE_ENGINE_OPERATORS_BYPASS_H_
#define REPRISE_ENGINE_OPERATORS_BYPASS_H_

#include "reprise/engine/operators/operator_thread.h"

namespace reprise::engine_internal {

bool has_open_bypass() noexcept;

inline bool is_bypassed() noexcept {
  return OperatorThread::current().may_be_bypassed && has_open_bypass();
}

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_BYPASS_H_
