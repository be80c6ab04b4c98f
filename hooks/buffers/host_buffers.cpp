// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/buffers/host_buffers.h"

#include <ATen/ops/empty.h>
#include <c10/core/TensorOptions.h>

#include <cstdint>
#include <iterator>
#include <utility>

namespace reprise::hooks_internal {

EventPtr record_now(const c10::Stream& stream) {
  auto event = std::make_shared<c10::Event>(stream.device_type());
  event->record(stream);
  return event;
}

std::optional<HostBuffers::Place> HostBuffers::take(std::int64_t bytes,
                                                    std::vector<HostBuffer>& to_release) {
  if (const auto found = unused_.find(bytes); found != unused_.end()) {
    return take_out(found);
  }
  while (bytes_ + bytes > max_bytes_ && !unused_.empty()) {
    const auto largest = std::prev(unused_.end());
    bytes_ -= largest->first;
    to_release.push_back(take_out(largest));
  }
  if (bytes > max_bytes_ || bytes_ > max_bytes_ - bytes) {
    return std::nullopt;
  }
  bytes_ += bytes;
  return Place();
}

HostBuffer HostBuffers::make(std::int64_t bytes, bool pin_memory) {
  const auto options = at::TensorOptions(at::kByte).device(at::kCPU).pinned_memory(pin_memory);
  return {at::empty({static_cast<std::int64_t>(bytes)}, options), {}};
}

void HostBuffers::give_back(HostBuffer buffer) {
  const std::int64_t bytes = buffer.bytes.nbytes();
  unused_.emplace(bytes, std::move(buffer));
}

std::vector<HostBuffer> HostBuffers::take_unused() {
  std::vector<HostBuffer> taken;
  while (!unused_.empty()) {
    bytes_ -= unused_.begin()->first;
    taken.push_back(take_out(unused_.begin()));
  }
  return taken;
}

HostBuffer HostBuffers::take_out(std::multimap<std::int64_t, HostBuffer>::iterator entry) {
  HostBuffer buffer = std::move(entry->second);
  unused_.erase(entry);
  return buffer;
}

void HostBuffers::release(std::vector<HostBuffer> buffers) {
  for (const HostBuffer& buffer : buffers) {
    for (const EventPtr& use : buffer.uses) {
      use->synchronize();
    }
  }
}

}  // namespace reprise::hooks_internal
