// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/recomputing.h"

#include "reprise/engine/ambient/recomputing_scope.h"

namespace reprise {

bool is_recomputing() noexcept { return engine_internal::RecomputingScope::is_active(); }

}  // namespace reprise
