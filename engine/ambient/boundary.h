// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Synchronisation with the accelerator at the boundaries of a region.
#ifndef REPRISE_ENGINE_AMBIENT_BOUNDARY_H_
#define REPRISE_ENGINE_AMBIENT_BOUNDARY_H_

namespace reprise::engine_internal {

// If `synchronizes`, the host waits for the accelerator's current device, unless that is idle.
// Throws the error of a failed kernel of that device.
void wait_at_boundary(bool synchronizes);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_BOUNDARY_H_
