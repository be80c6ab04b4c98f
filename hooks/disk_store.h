// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: disk_store.h
//
// Stores tensors in a file: written during forward, read ahead of backward.
//
// Not for tensors that are recomputed faster than the disk reads them: use `checkpoint()`. Not for
// saving a model: the file has no name, and ceases to exist with the store and its tensors.
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
// Thread-safety: thread-safe; may be shared by guards and threads.
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
class BackgroundOffloader;
class DiskFile;
}  // namespace hooks_internal

// The treatment of a tensor for which the disk has no space, or whose write has failed. In either
// case it stays in memory and get() returns it.
enum class DiskFull : std::uint8_t {
  kThrow,    // an error at the put() that detects it
  kForward,  // a warning, once per process; to the next store, or stays in memory
};

struct DiskOptions {
  // Directory of the file, which must exist and should be on a local disk. Empty: the system's
  // directory for temporary files (std::filesystem::temp_directory_path(), set by TMPDIR).
  std::string directory = {};

  // Smaller tensors are forwarded.
  std::int64_t min_bytes = std::int64_t{64} << 10;

  // Maximum size of the file. Tensors beyond it are forwarded.
  std::int64_t max_disk_bytes = std::numeric_limits<std::int64_t>::max();

  DiskFull when_full = DiskFull::kThrow;

  // Maximum bytes of tensors being written. Beyond it, put() waits for the disk.
  std::int64_t max_in_flight_bytes = std::int64_t{256} << 20;

  // The number of last tensors that stay in memory: backward asks for them immediately.
  std::int64_t keep_last = 1;

  // Bypasses the system's page cache, which would hold a second copy in memory, if the file system
  // supports that.
  bool direct = true;
};

struct DiskCounters : BackgroundCounters {
  std::int64_t disk_bytes = 0;  // of the file, in use
};

// See stores::disk().
class REPRISE_API DiskStore final : public ActivationStore {
 public:
  // Creates the file.
  //
  // Throws: c10::Error if it cannot.
  explicit DiskStore(const DiskOptions& options);
  ~DiskStore() override;

  // Two threads, shared by all stores that work in the background, write and read. They copy a
  // tensor of an accelerator to the host, after the work queued on its current stream; prefetch()
  // fetches it to the host, and get() waits for the rest. Each storage is stored once, and a view
  // smaller than half of its storage separately. A modification in place after put() is an error in
  // get(), as without a store. Indices and values of sparse tensors are stored like dense tensors.
  // Forwards small tensors, nested and quantized ones, and tensors for which there is no space.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Returns the counters of this store and of the stores made from it by `|`.
  [[nodiscard]] DiskCounters counters() const;

  // Waits until all pending writes are done.
  void flush();

  // Truncates unused space at the end of the file.
  void release_unused();

 private:
  DiskStore(std::shared_ptr<hooks_internal::DiskFile> file,
            std::shared_ptr<hooks_internal::BackgroundOffloader> memory,
            std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::DiskFile> file_;
  const std::shared_ptr<hooks_internal::BackgroundOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// Returns a DiskStore. Its tensors come back in memory of their own, unless the original still
// exists.
[[nodiscard]] REPRISE_API std::shared_ptr<DiskStore> disk(const DiskOptions& options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_DISK_STORE_H_
