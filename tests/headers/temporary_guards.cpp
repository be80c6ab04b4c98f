// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Guards that end at once, which a compiler is to warn of: this source does not compile with
// warnings as errors.
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/debug_mode.h"
#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/name_scope.h"

void make_temporary_guards() {
  reprise::CheckpointScope({.name = "block"});
  reprise::DebugModeGuard(true);
  reprise::SaveOnCpuGuard({.pin_memory = false});
  reprise::StoreGuard(reprise::stores::packed());
  reprise::NameScope("block");
}
