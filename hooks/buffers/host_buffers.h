// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Host memory for copies of device tensors, for reuse.
#ifndef REPRISE_HOOKS_BUFFERS_HOST_BUFFERS_H_
#define REPRISE_HOOKS_BUFFERS_HOST_BUFFERS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace reprise::hooks_internal {

using EventPtr = std::shared_ptr<c10::Event>;

// An event after the work that is queued on the stream now.
EventPtr record_now(const c10::Stream& stream);

struct HostBuffer {
  at::Tensor bytes;
  std::vector<EventPtr> uses;  // copies that must have ended before it is overwritten
};

// Not thread-safe: its owner locks it. Functions that wait for copies or call an allocator are
// static, to be called without that lock.
class HostBuffers {
 public:
  explicit HostBuffers(std::int64_t max_bytes) : max_bytes_(max_bytes) {}
  ~HostBuffers() { release(take_unused()); }
  HostBuffers(const HostBuffers&) = delete;
  HostBuffers& operator=(const HostBuffers&) = delete;

  // A buffer for reuse, or the space for a new one, which make() allocates.
  using Place = std::optional<HostBuffer>;

  // Returns nothing if there is no space. Buffers that are evicted for it are added to
  // `to_release`.
  std::optional<Place> take(std::int64_t bytes, std::vector<HostBuffer>& to_release);
  static HostBuffer make(std::int64_t bytes, bool pin_memory);
  // Returns the space, as make() has thrown.
  void give_back_room(std::int64_t bytes) { bytes_ -= bytes; }
  void give_back(HostBuffer buffer);

  // Returns the unused buffers, to be released.
  std::vector<HostBuffer> take_unused();
  // Waits for their copies.
  static void release(std::vector<HostBuffer> buffers);

  // In use, and unused.
  std::int64_t bytes() const { return bytes_; }

 private:
  HostBuffer take_out(std::multimap<std::int64_t, HostBuffer>::iterator entry);

  const std::int64_t max_bytes_;
  std::int64_t bytes_ = 0;
  std::multimap<std::int64_t, HostBuffer> unused_;  // by size
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BUFFERS_HOST_BUFFERS_H_
