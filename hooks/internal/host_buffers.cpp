// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/internal/host_buffers.h"

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

std::optional<HostBuffer> HostBuffers::take(std::size_t bytes) {
  if (const auto found = unused_.find(bytes); found != unused_.end()) {
    HostBuffer buffer = std::move(found->second);
    unused_.erase(found);
    return buffer;
  }
  while (bytes_ + bytes > max_bytes_ && !unused_.empty()) {
    auto largest = std::prev(unused_.end());
    HostBuffer buffer = std::move(largest->second);
    unused_.erase(largest);
    release(std::move(buffer));
  }
  if (bytes > max_bytes_ || bytes_ > max_bytes_ - bytes) {
    return std::nullopt;
  }
  const auto options = at::TensorOptions(at::kByte).pinned_memory(pin_memory_);
  HostBuffer buffer{at::empty({static_cast<std::int64_t>(bytes)}, options), {}};
  bytes_ += bytes;
  return buffer;
}

void HostBuffers::give_back(HostBuffer buffer) {
  const std::size_t bytes = buffer.bytes.nbytes();
  unused_.emplace(bytes, std::move(buffer));
}

void HostBuffers::release_unused() {
  while (!unused_.empty()) {
    HostBuffer buffer = std::move(unused_.begin()->second);
    unused_.erase(unused_.begin());
    release(std::move(buffer));
  }
}

void HostBuffers::release(HostBuffer buffer) {
  for (const EventPtr& use : buffer.uses) {
    use->synchronize();
  }
  bytes_ -= buffer.bytes.nbytes();
}

}  // namespace reprise::hooks_internal
