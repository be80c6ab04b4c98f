// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Streams of a session]: all replays of a region for one session run on the same stream of a
// device, whoever asks. So what one replay has computed and freed, the next may read and overwrite
// without an event. On the device of the slot that is asked for first it is the stream of the node
// that asks, which forward ran on; on others it is the one that was current there when forward
// began. The thread of one device has other streams current on the others than forward had, and
// those know nothing of when the region's inputs are ready.
//
// A node on another stream of the device may ask next: then the session's stream waits for that one
// before the replay, and that one for the session's before it gets the tensor.
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
  // Asks nothing of an accelerator that is not in use.
  static RegionStreams capture(const AmbientState& ambient);

  std::optional<c10::DeviceType> accelerator() const noexcept { return accelerator_; }
  c10::Stream on(c10::Device device) const;

 private:
  std::optional<c10::DeviceType> accelerator_;
  absl::InlinedVector<c10::Stream, 1> not_default_;
};

class SessionStreams {
 public:
  // To be called before each replay, for a slot on the device `asking`, if it is for one.
  void choose(const RegionStreams& forward, std::optional<c10::Device> asking);

  // Makes the current stream of the tensor's device wait for the session's, and the allocator wait
  // for that stream. Nothing happens if it is the session's.
  void order_use(const at::Tensor& tensor) const;

 private:
  friend class SessionStreamsGuard;

  absl::InlinedVector<c10::Stream, 1> streams_;  // of each device, when chosen
};

// While alive, the streams chosen are the current ones.
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
