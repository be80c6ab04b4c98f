// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/boundary.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace reprise::engine_internal {

void wait_at_boundary(bool synchronizes) {
  const auto type = synchronizes ? at::getAccelerator() : std::nullopt;
  if (!type) {
    return;
  }
  const c10::impl::VirtualGuardImpl guard(*type);
  const c10::DeviceIndex device = guard.getDevice().index();
  if (at::globalContext().getAcceleratorHooksInterface(*type).hasPrimaryContext(device)) {
    guard.synchronizeDevice(device);
  }
}

}  // namespace reprise::engine_internal
