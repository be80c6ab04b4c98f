// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/policy_bypass.h"

#include "reprise/engine/operators/bypass.h"

namespace reprise {

using engine_internal::Bypass;

PolicyBypassGuard::PolicyBypassGuard() : entry_(engine_internal::begin_bypass(Bypass::kPolicies)) {}
PolicyBypassGuard::~PolicyBypassGuard() { engine_internal::end_bypass(*entry_); }

}  // namespace reprise
