// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Streams of a session]: all replays of a region for one session run on the same stream of a
// device, regardless of the requesting node. A replay may thus read and overwrite memory that an
// earlier one has computed and freed, without an event. On the device of the first requested slot
// it is the stream of the requesting node, which forward ran on; on others the stream that was
// current when forward began. The thread of one device has other current streams on other devices
// than forward had, and these do not wait for the region's inputs.
//
// If a node on another stream of the device asks next, the session's stream waits for that one
// before the replay, and that one for the session's before it receives the tensor.
#ifndef REPRISE_ENGINE_AMBIENT_REGION_STREAMS_H_
#define REPRISE_ENGINE_AMBIENT_REGION_STREAMS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <optional>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/ambient/ambient_state.h"

namespace reprise::engine_internal {

// The current streams of an accelerator's devices, at one moment on one thread.
class RegionStreams {
 public:
  // Does not access an idle accelerator.
  static RegionStreams capture(const AmbientState& ambient);

  std::optional<c10::DeviceType> accelerator() const noexcept { return accelerator_; }
  c10::Stream on(c10::Device device) const;

 private:
  std::optional<c10::DeviceType> accelerator_;
  absl::InlinedVector<c10::Stream, 1> not_default_;
};

class SessionStreams {
 public:
  // To be called before each replay. asking: the device of the requested slot, if there is one.
  void choose(const RegionStreams& forward, std::optional<c10::Device> asking);

  // Makes the current stream of the tensor's device wait for the session's, and records that stream
  // with the allocator. No effect if they are the same.
  void order_use(const at::Tensor& tensor) const;

 private:
  friend class SessionStreamsGuard;

  absl::InlinedVector<c10::Stream, 1> streams_;  // per device, when chosen
};

// While alive, makes the chosen streams the current ones.
class [[nodiscard]] SessionStreamsGuard {
 public:
  explicit SessionStreamsGuard(const SessionStreams& streams);
  ~SessionStreamsGuard();
  SessionStreamsGuard(const SessionStreamsGuard&) = delete;
  SessionStreamsGuard& operator=(const SessionStreamsGuard&) = delete;

 private:
  absl::InlinedVector<c10::Stream, 1> found_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_REGION_STREAMS_H_
