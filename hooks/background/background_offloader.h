// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Stores with slow work: storages, each once, written to a place and read back by background
// threads.
#ifndef REPRISE_HOOKS_BACKGROUND_BACKGROUND_OFFLOADER_H_
#define REPRISE_HOOKS_BACKGROUND_BACKGROUND_OFFLOADER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background_counters.h"
#include "reprise/hooks/buffers/host_buffers.h"
#include "reprise/hooks/buffers/residency_queue.h"
#include "reprise/hooks/storage/entries_by_storage.h"
#include "reprise/hooks/storage/storage_origin.h"

namespace reprise::hooks_internal {

// The bytes of a storage that is being written. Its owner may release it meanwhile.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Copies `size` bytes from `offset`. Returns false if nobody needs the place any more. The owner
  // waits for this, and for nothing else.
  virtual bool copy(std::int64_t offset, std::int64_t size, std::byte* to) = 0;
};

// The place of one storage's bytes while they are not in memory. Destruction releases it.
class Place {
 public:
  Place() = default;
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  virtual ~Place() = default;

  enum class Outcome {
    kWritten,
    kRefused,    // the place does not accept such bytes
    kAbandoned,  // nobody needs the place any more
  };

  // All of them may be slow, and throw.
  virtual Outcome write(ByteSource& source, std::int64_t size) = 0;
  // Called after a write(), by the same thread, when the bytes' own memory is free. After an
  // exception read() works nevertheless.
  virtual void finish() {}
  // Called before read() if the place is not needed afterwards. May release memory.
  virtual void start_last_read() {}
  virtual void read(std::byte* bytes, std::int64_t size) = 0;
  // Returns its bytes in host memory, once written.
  [[nodiscard]] virtual std::int64_t memory_bytes() const { return 0; }
};

struct PlaceRequest {
  std::int64_t bytes;
  c10::Device device;
  std::int64_t in_flight_bytes;  // of other tensors
  const std::shared_ptr<ActivationStore>& next;
};

struct BackgroundOptions {
  const char* name;  // of the store, for errors
  std::int64_t min_bytes;
  std::int64_t max_in_flight_bytes;
  std::int64_t keep_last;
  bool throws_failures;  // otherwise warns, once per process
  // Returns a place, possibly in the next store; null if there is no space. May throw.
  std::function<std::unique_ptr<Place>(const PlaceRequest&)> find_place;
  // A CPU tensor that was read back stays in memory, and leaves its place: its owner needs it until
  // backward has used it, and so need not hold it twice.
  bool moves_back = false;
  // Called after put() or get() has waited.
  std::function<void(std::chrono::nanoseconds)> note_wait = [](std::chrono::nanoseconds) {};
};

class BackgroundOffloader;

// One storage. BackgroundOffloader::keep() gives its owners a pointer whose last copy releases the
// bytes, even while a thread of the background has a pointer of its own. Its fields are guarded by
// the lock of its BackgroundOffloader. As for HostOffloader, foreign code does not run under it:
// operators, allocators, the freeing of tensors, the next store, warning handlers.
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
  // kLeaving: a thread looks for a place, or forwards it. kStays: in memory, for good.
  enum class State { kResident, kLeaving, kInFlight, kStays, kForwarded, kWritten };

  class Source;

  // Its owners are gone. Waits for a thread that uses the bytes.
  void release();
  // From here to the end of a Work this thread alone uses and changes bytes_ and place_. Returns
  // false, and then there is no Work, if the owners are gone.
  bool begin_work(const std::unique_lock<std::mutex>& lock);
  class Work {
   public:
    explicit Work(BackgroundEntry& entry) : entry_(entry) {}
    ~Work() { entry_.end_work(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    BackgroundEntry& entry_;
  };
  void end_work();
  at::Tensor find_bytes() const;

  // Called by the threads that do the work.
  static void write(const std::weak_ptr<BackgroundEntry>& weak);
  void end_write(Place::Outcome outcome, std::exception_ptr failure);
  void read(at::Tensor loaded);

  void set_stored(State state);
  void leave_queue(State was, const std::unique_lock<std::mutex>& lock);

  at::Tensor bring_back(bool is_own);
  bool moves_back() const;
  void start_read(std::unique_lock<std::mutex>& lock);
  void drop_bytes();
  // Returns false if the tensor was requested meanwhile: it stays in memory, and leaves its place.
  bool drop_bytes_if_written(Place::Outcome outcome);
  void forward();
  void wait_for_read(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<BackgroundOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
  StorageOrigin origin_;
  const c10::Device device_;
  EventPtr put_;  // after the work queued on the device's stream then; null on the CPU

  State state_ = State::kResident;
  at::Tensor bytes_;  // until it is written
  std::shared_ptr<Place> place_;
  bool is_requested_ = false;
  bool is_released_ = false;
  std::optional<std::thread::id> busy_thread_;
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

  static std::shared_ptr<BackgroundEntry> owned(std::shared_ptr<BackgroundEntry> entry);

  // Called without the lock.
  void send_oldest();
  std::shared_ptr<BackgroundEntry> take_oldest();
  void send(BackgroundEntry& entry);
  std::unique_ptr<Place> find_place_or_forward(BackgroundEntry& entry);
  void start_flight(BackgroundEntry& entry, std::unique_ptr<Place> place);
  std::unique_ptr<Place> find_place(const BackgroundEntry& entry);
  void wait_for_room();
  std::int64_t in_flight_bytes();
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
