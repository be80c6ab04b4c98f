// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: host_store.h
//
// Stores tensors of an accelerator in host memory: copies overlap with the computation of forward
// and of backward.
//
// Not for CPU tensors, which are forwarded, and no substitute for `checkpoint()` if recomputation
// is cheaper than the bus.
//
// Example:
//
//   auto host = reprise::stores::host({.max_host_bytes = 8LL << 30});
//   {
//     reprise::StoreGuard guard(reprise::stores::packed() | host);
//     loss = model->forward(x).sum();
//   }
//   loss.backward();
//   std::cout << host->counters().bytes_out;
//
// Thread-safety: thread-safe; may be shared by guards and threads.
#ifndef REPRISE_HOOKS_HOST_STORE_H_
#define REPRISE_HOOKS_HOST_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise {

namespace hooks_internal {
class HostOffloader;
}  // namespace hooks_internal

struct HostOptions {
  // Page-locks the host memory, so that copies run at the bus's speed and overlap with computation.
  // If the system has no such memory left, the store warns once, and uses pageable memory.
  bool pin_memory = true;

  // Smaller tensors are forwarded.
  std::int64_t min_bytes = 4096;

  // Maximum host memory of the store, including buffers for reuse. Tensors beyond it are forwarded:
  // they go to the next store, or stay on their device.
  std::int64_t max_host_bytes = std::numeric_limits<std::int64_t>::max();

  // Maximum time for which put() waits for another thread to release host memory before it
  // forwards.
  std::chrono::milliseconds max_wait{0};

  // Maximum device memory of tensors being copied out. Beyond it, the computation waits for the
  // oldest copy.
  std::int64_t max_in_flight_bytes = std::int64_t{256} << 20;

  // Device-memory budget in bytes. When exceeded, the oldest tensors are offloaded first.
  std::int64_t max_device_bytes = 0;

  // The number of last tensors that stay on the device: backward asks for them immediately.
  std::int64_t keep_last = 1;
};

struct HostCounters {
  std::int64_t bytes_out = 0;     // copied to the host
  std::int64_t bytes_in = 0;      // copied back
  std::int64_t bytes_reused = 0;  // requested while still on the device, or again
  std::int64_t bytes_forwarded = 0;
  std::int64_t waits = 0;  // tensors that backward requested before their copy was done
  std::chrono::nanoseconds wait_time{0};  // in which the backward stream was blocked on them
  std::int64_t put_waits = 0;             // copies out that blocked forward's stream
  std::chrono::nanoseconds put_wait_time{0};
  std::int64_t host_bytes = 0;       // allocated by the store now
  std::int64_t in_flight_bytes = 0;  // on the device, being copied out
  std::int64_t resident_bytes = 0;   // on the device, not being copied
};

// See stores::host().
class REPRISE_API HostStore final : public ActivationStore {
 public:
  explicit HostStore(HostOptions options);
  ~HostStore() override;

  // Each storage is stored once, however many views of it are put; for views smaller than half of
  // their storage, the elements. A modification in place of the tensor while it is being copied or
  // is still on the device is an error in get(). Indices and values of sparse tensors are stored
  // like dense tensors. Forwards CPU tensors, small ones, nested and quantized ones, and tensors
  // for which there is no space.
  //
  // Stream: copies on a stream of the store's own, after the work queued on the device's current
  //   stream; does not synchronise with the device.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Returns the counters of this store and of the stores made from it by `|`. Times are those of
  // completed waits, as measured by the device. Does not wait.
  [[nodiscard]] HostCounters counters() const;

  // Returns unused host buffers to LibTorch. Waits for their copies.
  void release_unused();

 private:
  HostStore(std::shared_ptr<hooks_internal::HostOffloader> memory,
            std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::HostOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// Returns a HostStore. Its tensors come back in memory of their own, unless the original still
// exists.
[[nodiscard]] REPRISE_API std::shared_ptr<HostStore> host(HostOptions options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_HOST_STORE_H_
