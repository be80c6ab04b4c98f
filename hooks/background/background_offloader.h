// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Stores with slow work: storages, each once, written to a place and read back by background
// threads.
#ifndef REPRISE_HOOKS_BACKGROUND_BACKGROUND_OFFLOADER_H_
#define REPRISE_HOOKS_BACKGROUND_BACKGROUND_OFFLOADER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background_counters.h"
#include "reprise/hooks/buffers/host_buffers.h"
#include "reprise/hooks/buffers/residency_queue.h"
#include "reprise/hooks/storage/storage_origin.h"

namespace reprise::hooks_internal {

// The place of one storage's bytes while they are not in memory. Destruction releases it.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  // Slow; may throw. write() returns false if the place does not accept such bytes.
  virtual bool write(const std::byte* bytes, std::int64_t size) = 0;
  virtual void read(std::byte* bytes, std::int64_t size) = 0;
  // Returns its bytes in host memory, once written.
  [[nodiscard]] virtual std::int64_t memory_bytes() const { return 0; }
};

struct BackgroundOptions {
  const char* name;  // of the store, for errors
  std::int64_t min_bytes;
  std::int64_t max_in_flight_bytes;
  std::int64_t keep_last;
  bool throws_failures;  // otherwise warns, once per process
  // Returns a place for this many bytes, possibly in `next`; null if there is no space. May throw.
  std::function<std::unique_ptr<Place>(std::int64_t bytes,
                                       const std::shared_ptr<ActivationStore>& next)>
      find_place;
};

class BackgroundOffloader;

// One storage. Its fields are guarded by the lock of its BackgroundOffloader. As for HostOffloader,
// foreign code does not run under it: operators, allocators, the freeing of tensors, the next
// store, warning handlers.
class BackgroundEntry : public std::enable_shared_from_this<BackgroundEntry> {
 public:
  // bytes: of the whole storage. next: for tensors without space.
  BackgroundEntry(std::shared_ptr<BackgroundOffloader> memory, const at::Tensor& bytes,
                  std::shared_ptr<ActivationStore> next);
  ~BackgroundEntry();
  BackgroundEntry(const BackgroundEntry&) = delete;
  BackgroundEntry& operator=(const BackgroundEntry&) = delete;

  void prefetch();
  at::Tensor get() { return bring_back(/*is_own=*/false); }
  at::Tensor get_own() { return bring_back(/*is_own=*/true); }
  std::int64_t device_bytes() const;
  const StorageOrigin& origin() const { return origin_; }

 private:
  friend class BackgroundOffloader;
  // kLeaving: a thread looks for a place, or forwards it. kFailed: it stays in memory.
  enum class State { kResident, kLeaving, kInFlight, kFailed, kForwarded, kWritten };

  // Called by the threads that do the work.
  void write();
  void read();

  at::Tensor bring_back(bool is_own);
  void start_read();
  void release_bytes(State state);
  void forward();
  void wait_for_read(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<BackgroundOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
  StorageOrigin origin_;
  const c10::Device device_;
  EventPtr put_;  // after the work queued on the device's stream then; null on the CPU

  State state_ = State::kResident;
  at::Tensor bytes_;  // until it is written
  std::unique_ptr<Place> place_;
  bool is_being_read_ = false;
  at::Tensor loaded_;  // on the CPU
  std::exception_ptr read_error_;
  std::unique_ptr<StoredTensor> forwarded_;
};

class BackgroundOffloader : public std::enable_shared_from_this<BackgroundOffloader> {
 public:
  explicit BackgroundOffloader(BackgroundOptions options);

  const BackgroundOptions& options() const { return options_; }
  static bool takes(c10::Device /*device*/) { return true; }

  // Returns the entry of the storage of `bytes`, a new one unless there is one of this version.
  std::shared_ptr<BackgroundEntry> keep(const at::Tensor& bytes,
                                        const std::shared_ptr<ActivationStore>& next);

  void count_forwarded(std::int64_t bytes);
  BackgroundCounters counters();
  void flush();

 private:
  friend class BackgroundEntry;
  using Lock = std::unique_lock<std::mutex>;

  // Called without the lock.
  void send_oldest();
  std::shared_ptr<BackgroundEntry> take_oldest();
  void send(BackgroundEntry& entry);
  std::unique_ptr<Place> find_place(const BackgroundEntry& entry);
  void wait_for_room();
  void report_failure();

  const BackgroundOptions options_;
  std::mutex mutex_;
  std::condition_variable work_done_;
  EntriesByStorage<BackgroundEntry> by_storage_;
  ResidencyQueue<BackgroundEntry> queue_;
  std::exception_ptr failure_;  // of a write, not yet reported
  BackgroundCounters counters_;
};

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_BACKGROUND_BACKGROUND_OFFLOADER_H_
