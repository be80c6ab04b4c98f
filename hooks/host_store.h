// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: host_store.h
//
// Keeps tensors of an accelerator in host memory: copied out beside the computation of forward, and
// back beside that of backward.
//
// Not for CPU tensors, which are where they belong (they are handed on), and no substitute for
// `checkpoint()` where recomputing is cheaper than the bus.
//
// Example:
//
//   auto host = reprise::stores::host({.max_host_bytes = std::size_t{8} << 30});
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
  // Page-locks the host memory, so that copies run at the bus's speed and beside computation.
  bool pin_memory = true;

  // Smaller tensors are handed on.
  std::size_t min_bytes = 4096;

  // Host memory that the store may take, buffers that wait to be used again included. What does not
  // fit is handed on: it stays on its device, or goes to the store that follows.
  std::size_t max_host_bytes = std::numeric_limits<std::size_t>::max();

  // Before handing on for lack of room, put() waits so long for another thread to give back some.
  std::chrono::milliseconds max_wait{0};

  // Device memory of tensors that are being copied out. Beyond it, the computation waits for the
  // oldest copy before it goes on.
  std::size_t max_in_flight_bytes = std::size_t{256} << 20;

  // So much stays on the device; beyond it, the oldest go first.
  std::size_t max_device_bytes = 0;

  // The last so many tensors stay on the device: backward asks for them at once.
  std::size_t keep_last = 1;
};

struct HostCounters {
  std::int64_t bytes_out = 0;     // copied to the host
  std::int64_t bytes_in = 0;      // and back
  std::int64_t bytes_reused = 0;  // asked for while they were still on the device, or again
  std::int64_t bytes_forwarded = 0;
  std::int64_t waits = 0;  // tensors that backward asked for before their copy was there
  std::chrono::nanoseconds wait_time{0};  // for which its stream stood still for those
  std::int64_t put_waits = 0;             // copies out that forward's stream was made to wait for
  std::chrono::nanoseconds put_wait_time{0};
  std::size_t host_bytes = 0;       // that the store has now
  std::size_t in_flight_bytes = 0;  // on the device, being copied out
  std::size_t resident_bytes = 0;   // on the device, not being copied
};

// See stores::host().
class REPRISE_API HostStore final : public ActivationStore {
 public:
  explicit HostStore(HostOptions options);
  ~HostStore() override;

  // Copies on a stream of the store's own, after what the device's current stream has queued; does
  // not wait for the device. Each storage is kept once, however many views of it are put; of views
  // smaller than half of their storage, the elements. A change in place of the tensor while it is
  // being copied or is still on the device is an error in get(). Of sparse tensors, indices and
  // values are kept as dense ones are. Hands on: CPU tensors, small ones, nested and quantized
  // ones, and what finds no room.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Of this store and those made of it by `|`. Times are those of waits that have ended, as the
  // device measured them. Does not wait.
  [[nodiscard]] HostCounters counters() const;

  // Gives host memory that waits to be used again back to LibTorch. Waits for its copies.
  void release_unused();

 private:
  HostStore(std::shared_ptr<hooks_internal::HostOffloader> memory,
            std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::HostOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// A HostStore. What comes back is a tensor of its own, unless the original is still there.
[[nodiscard]] REPRISE_API std::shared_ptr<HostStore> host(HostOptions options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_HOST_STORE_H_
