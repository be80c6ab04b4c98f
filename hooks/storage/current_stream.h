// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The current stream of a device, for events.
#ifndef REPRISE_HOOKS_STORAGE_CURRENT_STREAM_H_
#define REPRISE_HOOKS_STORAGE_CURRENT_STREAM_H_

#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace reprise::hooks_internal {

// Returns the current stream of this thread; none for the CPU, which has no streams.
inline std::optional<c10::Stream> current_stream_of(c10::Device device) {
  return device.is_cpu()
             ? std::nullopt
             : std::optional(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_CURRENT_STREAM_H_
