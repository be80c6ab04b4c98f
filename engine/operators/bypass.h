// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Returns whether the operators of this thread are excluded from policies.
#ifndef REPRISE_ENGINE_OPERATORS_BYPASS_H_
#define REPRISE_ENGINE_OPERATORS_BYPASS_H_

namespace reprise::engine_internal {

bool is_bypassed() noexcept;

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_BYPASS_H_
