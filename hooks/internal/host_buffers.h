// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Host memory for copies of device tensors, used again and again.
#ifndef REPRISE_HOOKS_INTERNAL_HOST_BUFFERS_H_
#define REPRISE_HOOKS_INTERNAL_HOST_BUFFERS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::hooks_internal {

using EventPtr = std::shared_ptr<c10::Event>;

// What the stream has queued up to now.
EventPtr record_now(const c10::Stream& stream);

struct HostBuffer {
  at::Tensor bytes;
  std::vector<EventPtr> uses;  // copies that must have ended before it is written anew
};

// Not thread-safe.
class HostBuffers {
 public:
  HostBuffers(bool pin_memory, std::size_t max_bytes)
      : pin_memory_(pin_memory), max_bytes_(max_bytes) {}
  ~HostBuffers() { release_unused(); }
  HostBuffers(const HostBuffers&) = delete;
  HostBuffers& operator=(const HostBuffers&) = delete;

  // Nothing if there is no room.
  std::optional<HostBuffer> take(std::size_t bytes);
  void give_back(HostBuffer buffer);
  void release_unused();

  // Taken, and waiting to be.
  std::size_t bytes() const { return bytes_; }

 private:
  // Waits for the buffer's copies.
  void release(HostBuffer buffer);

  const bool pin_memory_;
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::multimap<std::size_t, HostBuffer> unused_;  // by size
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_INTERNAL_HOST_BUFFERS_H_
