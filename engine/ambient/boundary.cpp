// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/ambient/boundary.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "reprise/rng/generators/default_generators.h"

namespace reprise::engine_internal {

void wait_at_boundary(bool synchronizes) {
  const auto device = synchronizes ? rng_internal::current_accelerator() : std::nullopt;
  if (device && rng_internal::is_in_use(*device)) {
    c10::impl::VirtualGuardImpl(device->type()).synchronizeDevice(device->index());
  }
}

}  // namespace reprise::engine_internal
