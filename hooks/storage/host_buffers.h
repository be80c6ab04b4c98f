// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Host memory for copies of device tensors, used again and again.
#ifndef REPRISE_HOOKS_STORAGE_HOST_BUFFERS_H_
#define REPRISE_HOOKS_STORAGE_HOST_BUFFERS_H_

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

// Not thread-safe: its owner locks it. What waits for copies or asks an allocator is a static
// function, to be called without that lock.
class HostBuffers {
 public:
  HostBuffers(bool pin_memory, std::size_t max_bytes)
      : pin_memory_(pin_memory), max_bytes_(max_bytes) {}
  ~HostBuffers() { release(take_unused()); }
  HostBuffers(const HostBuffers&) = delete;
  HostBuffers& operator=(const HostBuffers&) = delete;

  // A buffer that waits to be used again, or room for a new one, which make() makes.
  using Place = std::optional<HostBuffer>;

  // Nothing if there is no room. Those that go to make room are added to `to_release`.
  std::optional<Place> take(std::size_t bytes, std::vector<HostBuffer>& to_release);
  static HostBuffer make(std::size_t bytes, bool pin_memory);
  // The room is not used, as make() has thrown.
  void give_back_room(std::size_t bytes) { bytes_ -= bytes; }
  void give_back(HostBuffer buffer);

  // Those that wait to be used again, which are to be released.
  std::vector<HostBuffer> take_unused();
  // Waits for their copies.
  static void release(std::vector<HostBuffer> buffers);

  bool pin_memory() const { return pin_memory_; }
  // Taken, and waiting to be.
  std::size_t bytes() const { return bytes_; }

 private:
  HostBuffer take_out(std::multimap<std::size_t, HostBuffer>::iterator entry);

  const bool pin_memory_;
  const std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::multimap<std::size_t, HostBuffer> unused_;  // by size
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_STORAGE_HOST_BUFFERS_H_
