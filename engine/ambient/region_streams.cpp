// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/ambient/region_streams.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using Guard = c10::impl::VirtualGuardImpl;

// Makes work queued on `later` from now on wait for the work queued on `first`.
void order(const c10::Stream& first, const c10::Stream& later) {
  c10::Event event(first.device_type());
  event.record(first);
  event.block(later);
}

}  // namespace

RegionStreams RegionStreams::capture(const AmbientState& ambient) {
  RegionStreams streams;
  streams.accelerator_ = ambient.accelerator();
  if (streams.accelerator_) {
    const Guard guard(*streams.accelerator_);
    for (c10::DeviceIndex index = 0; index < guard.deviceCount(); ++index) {
      const c10::Device device(*streams.accelerator_, index);
      const c10::Stream stream = guard.getStream(device);
      if (stream != c10::Stream(c10::Stream::DEFAULT, device)) {
        streams.not_default_.push_back(stream);
      }
    }
  }
  return streams;
}

c10::Stream RegionStreams::on(c10::Device device) const {
  for (const c10::Stream& stream : not_default_) {
    if (stream.device() == device) {
      return stream;
    }
  }
  return c10::Stream(c10::Stream::DEFAULT, device);
}

void SessionStreams::choose(const RegionStreams& forward, std::optional<c10::Device> asking) {
  if (asking && !at::isAccelerator(asking->type())) {
    asking.reset();
  }
  const auto type = asking ? std::optional(asking->type()) : forward.accelerator();
  if (!type) {
    return;
  }
  const Guard guard(*type);
  if (streams_.empty()) {
    for (c10::DeviceIndex index = 0; index < guard.deviceCount(); ++index) {
      const c10::Device device(*type, index);
      streams_.push_back(device == asking ? guard.getStream(device) : forward.on(device));
    }
  } else if (asking) {
    const c10::Stream current = guard.getStream(*asking);
    const c10::Stream& chosen = streams_[static_cast<std::size_t>(asking->index())];
    if (current != chosen) {
      order(current, chosen);
    }
  }
}

void SessionStreams::order_use(const at::Tensor& tensor) const {
  if (streams_.empty() || tensor.device().type() != streams_.front().device_type()) {
    return;
  }
  const c10::Stream& chosen = streams_[static_cast<std::size_t>(tensor.device().index())];
  const c10::Stream current = Guard(chosen.device_type()).getStream(chosen.device());
  if (current != chosen) {
    order(chosen, current);
    const hooks_internal::UnseenScope unseen;
    tensor.record_stream(current);
  }
}

SessionStreamsGuard::SessionStreamsGuard(const SessionStreams& streams) {
  for (const c10::Stream& stream : streams.streams_) {
    const Guard guard(stream.device_type());
    if (guard.getStream(stream.device()) != stream) {
      found_.push_back(guard.exchangeStream(stream));
    }
  }
}

SessionStreamsGuard::~SessionStreamsGuard() {
  for (const c10::Stream& stream : found_) {
    Guard(stream.device_type()).exchangeStream(stream);
  }
}

}  // namespace reprise::engine_internal
