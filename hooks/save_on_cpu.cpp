// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/save_on_cpu.h"

#include "reprise/hooks/host_store.h"

namespace reprise {
namespace {

// With nothing in flight, the copy is done before a tensor that forward saved can be modified.
HostOptions host_options(const SaveOnCpuOptions& options) {
  return {.pin_memory = options.pin_memory,
          .min_bytes = 0,
          .max_in_flight_bytes = 0,
          .max_device_bytes = options.max_device_bytes,
          .keep_last = 0};
}

}  // namespace

SaveOnCpuGuard::SaveOnCpuGuard(SaveOnCpuOptions options)
    : guard_(stores::host(host_options(options))) {}

SaveOnCpuGuard::~SaveOnCpuGuard() = default;

}  // namespace reprise
