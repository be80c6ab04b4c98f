// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/ambient/recomputing_scope.h"

namespace reprise::engine_internal {
namespace {

thread_local int t_depth = 0;

}  // namespace

RecomputingScope::RecomputingScope() { ++t_depth; }
RecomputingScope::~RecomputingScope() { --t_depth; }
bool RecomputingScope::is_active() noexcept { return t_depth > 0; }

}  // namespace reprise::engine_internal
