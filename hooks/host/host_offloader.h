// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The implementation of HostStore: storages of devices, each once, copied to the host and back.
//
// Note [Who waits for whom]: forward's stream never waits, unless more is in flight than allowed.
//   - A copy out waits for the work that forward's stream had queued when the tensor was put.
//   - Device memory is released when its copy is done, or after forward's stream has been made to
//   wait
//     for it: a later allocation must not overwrite it before.
//   - A copy in waits for the copy out, and for the work that backward's stream had queued when the
//     destination was allocated there: that memory may have been in use until then.
//   - Backward's stream waits for the copy in when it receives the tensor, or when that is dropped.
//   - A reused buffer waits for the copies that it was part of.
//
// Note [Without the lock]: operators, allocators, the freeing of tensors, and the next store are
// foreign code, which may call this store: none of it runs under the lock. Under the lock, events
// are recorded, queried and waited for by streams; no other code of LibTorch runs. An entry that is
// being sent is in neither list, and its device bytes stay where they are.
#ifndef REPRISE_HOOKS_HOST_HOST_OFFLOADER_H_
#define REPRISE_HOOKS_HOST_HOST_OFFLOADER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/buffers/host_buffers.h"
#include "reprise/hooks/buffers/residency_queue.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/storage/entries_by_storage.h"
#include "reprise/hooks/storage/storage_origin.h"

namespace reprise::hooks_internal {

class HostOffloader;

// One storage. Its fields are guarded by the lock of its HostOffloader.
class HostEntry : public std::enable_shared_from_this<HostEntry> {
 public:
  // bytes: of the whole storage. next: for tensors without space.
  HostEntry(std::shared_ptr<HostOffloader> memory, const at::Tensor& bytes,
            std::shared_ptr<ActivationStore> next);
  ~HostEntry();
  HostEntry(const HostEntry&) = delete;
  HostEntry& operator=(const HostEntry&) = delete;

  void prefetch();
  at::Tensor get() { return bring_back(/*is_own=*/false); }
  at::Tensor get_own() { return bring_back(/*is_own=*/true); }
  std::int64_t device_bytes() const;
  const StorageOrigin& origin() const { return origin_; }

 private:
  friend class HostOffloader;

  // kLeaving: a thread starts its copy out, or forwards it.
  enum class State { kResident, kLeaving, kInFlight, kGone };
  using Tensors = std::vector<at::Tensor>;
  struct Load {
    at::Tensor bytes;
    c10::Stream stream;  // on which they were allocated
    EventPtr done;
  };

  at::Tensor bring_back(bool is_own);
  // Called without the lock.
  Load start_copy_in();
  // Called with it. The tensor is added to `dropped`, which is freed without it.
  void drop_device_bytes(Tensors& dropped);
  void note_copy_in(const Load& load);

  const std::shared_ptr<HostOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
  StorageOrigin origin_;
  const c10::Stream put_stream_;
  EventPtr put_;  // after the work queued then

  State state_ = State::kResident;
  at::Tensor device_bytes_;   // until it has been copied out
  bool is_modified_ = false;  // before that
  std::optional<HostBuffer> buffer_;
  EventPtr copied_out_;
  std::vector<EventPtr> copies_in_;  // that may not have ended
  bool is_being_loaded_ = false;     // by prefetch()
  std::int64_t loads_ = 0;
  std::optional<Load> loaded_;
  std::unique_ptr<StoredTensor> forwarded_;
};

class HostOffloader : public std::enable_shared_from_this<HostOffloader> {
 public:
  explicit HostOffloader(HostOptions options);

  const HostOptions& options() const { return options_; }
  static bool takes(c10::Device device) { return !device.is_cpu(); }

  // Returns the entry of the storage of `bytes`, a new one unless there is one of this version.
  std::shared_ptr<HostEntry> keep(const at::Tensor& bytes,
                                  const std::shared_ptr<ActivationStore>& next);

  void count_forwarded(std::int64_t bytes);
  HostCounters counters();
  void release_unused();

 private:
  friend class HostEntry;
  using Lock = std::unique_lock<std::mutex>;
  struct Streams {
    c10::Stream out;
    c10::Stream in;
  };

  // Called without the lock.
  Streams streams_of(c10::Device device);
  void send_oldest();
  void send(HostEntry& entry);
  void start_copy_out(HostEntry& entry, HostBuffers::Place place);
  HostBuffer make_buffer(std::int64_t bytes);
  void forward(HostEntry& entry);
  EventPtr copy_out(const HostEntry& entry, HostBuffer& buffer);
  // Called with it.
  void return_to_queue(HostEntry& entry);
  std::optional<HostBuffers::Place> take_place(Lock& lock, std::int64_t bytes,
                                               std::vector<HostBuffer>& to_release);
  void release_copied(HostEntry::Tensors& dropped);

  // A stream's wait between two events.
  struct Wait {
    EventPtr begin, end;
    std::chrono::nanoseconds HostCounters::*time;
  };
  // Makes the stream wait for the copy, and counts that if it is not done.
  void wait_for(const c10::Event& copy, const c10::Stream& stream,
                std::int64_t HostCounters::*waits, std::chrono::nanoseconds HostCounters::*time);
  void count_time_of_waits();

  const HostOptions options_;
  std::atomic<bool> pins_;  // page-locks host memory: false once the system had none
  std::mutex mutex_;
  std::condition_variable buffer_returned_;
  HostBuffers buffers_;
  std::map<c10::DeviceIndex, Streams> streams_;
  EntriesByStorage<HostEntry> by_storage_;
  ResidencyQueue<HostEntry> queue_;
  std::list<Wait> waits_;  // that may not have ended
  HostCounters counters_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_HOST_HOST_OFFLOADER_H_
