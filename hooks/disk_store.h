// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: disk_store.h
//
// Keeps tensors in a file: written beside forward, read ahead of backward.
//
// Not where computing again is quicker than the disk: `checkpoint()` is for that. Not a way to save
// a model: the file has no name, and is gone when the process is, however that ends.
//
// Example:
//
//   auto disk = reprise::stores::disk({.directory = "/scratch"});
//   {
//     reprise::StoreGuard guard(reprise::stores::packed() | disk);
//     loss = model->forward(x).sum();
//   }
//   loss.backward();
//   std::cout << disk->counters().bytes_out;
//
// Thread-safety: thread-safe; may be shared by guards and threads. Not after fork().
#ifndef REPRISE_HOOKS_DISK_STORE_H_
#define REPRISE_HOOKS_DISK_STORE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background_counters.h"

namespace reprise {

namespace hooks_internal {
class BackgroundMemory;
class DiskFile;
}  // namespace hooks_internal

// What becomes of a tensor for which the disk has no room, or whose writing has failed. In either
// case it stays in memory and can be got.
enum class DiskFull : std::uint8_t {
  kThrow,    // an error at the put() that finds out
  kForward,  // a warning, once a process; to the next store, or where it is
};

struct DiskOptions {
  // Of the file. It should be on a local disk. Must be there. Empty: the system's directory for
  // temporary files (std::filesystem::temp_directory_path(), which TMPDIR sets).
  std::string directory = {};

  // Smaller tensors are handed on.
  std::size_t min_bytes = std::size_t{64} << 10;

  // Room on the disk that the store may take. What would be more is handed on.
  std::size_t max_disk_bytes = std::numeric_limits<std::size_t>::max();

  DiskFull when_full = DiskFull::kThrow;

  // Memory of tensors that are being written. Beyond it, put() waits for the disk.
  std::size_t max_in_flight_bytes = std::size_t{256} << 20;

  // The last so many tensors stay in memory: backward asks for them at once.
  std::size_t keep_last = 1;

  // Past the system's page cache, which would keep a second copy in memory, where the file system
  // can.
  bool direct = true;
};

struct DiskCounters : BackgroundCounters {
  std::size_t disk_bytes = 0;  // of the file, in use
};

// See stores::disk().
class REPRISE_API DiskStore final : public ActivationStore {
 public:
  // Makes the file. Throws c10::Error if it cannot.
  explicit DiskStore(const DiskOptions& options);
  ~DiskStore() override;

  // Two threads, which all stores with work in the background share, write and read. A tensor of an
  // accelerator is copied to the host by them, after what its current stream has queued; prefetch()
  // brings it as far as the host, and get() waits for the rest. Each storage is kept once, and a
  // view smaller than half of its storage by itself. A change in place after put() is an error in
  // get(), as without a store. Of sparse tensors, indices and values are kept as dense ones are.
  // Hands on: small tensors, nested and quantized ones, and what finds no room.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Of this store and those made of it by `|`.
  [[nodiscard]] DiskCounters counters() const;

  // Waits until everything is written that is to be.
  void flush();

  // Gives back what the file has at its end and does not use.
  void release_unused();

 private:
  DiskStore(std::shared_ptr<hooks_internal::DiskFile> file,
            std::shared_ptr<hooks_internal::BackgroundMemory> memory,
            std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::DiskFile> file_;
  const std::shared_ptr<hooks_internal::BackgroundMemory> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// A DiskStore. What comes back is a tensor of its own, unless the original is still there.
[[nodiscard]] REPRISE_API std::shared_ptr<DiskStore> disk(const DiskOptions& options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_DISK_STORE_H_
