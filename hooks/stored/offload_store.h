// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The HostStore for CPU_OFFLOAD answers without a store.
#ifndef REPRISE_HOOKS_STORED_OFFLOAD_STORE_H_
#define REPRISE_HOOKS_STORED_OFFLOAD_STORE_H_

#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/host_store.h"

namespace reprise::hooks_internal {

// Returns the store, one per process, for tensors of any size. Never destroyed: at the end of the
// process its device may be unavailable.
REPRISE_API const std::shared_ptr<HostStore>& offload_store();

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORED_OFFLOAD_STORE_H_
