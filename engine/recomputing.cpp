// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/recomputing.h"

#include "reprise/engine/ambient/recomputing_scope.h"

namespace reprise {
namespace {

thread_local int t_depth = 0;

}  // namespace

bool is_recomputing() noexcept { return t_depth > 0; }

namespace engine_internal {

RecomputingScope::RecomputingScope() { ++t_depth; }
RecomputingScope::~RecomputingScope() { --t_depth; }

}  // namespace engine_internal
}  // namespace reprise
