// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: compressed_store.h
//
// Keeps tensors compressed in host memory, without loss; with a DiskStore behind it, on the disk.
//
// Not for the device, nor where a core has better things to do: a core compresses some hundred
// megabytes a second. Activations that are mostly 0 become a fraction, others of bfloat16 about
// four fifths, of float32 hardly less; what does not become smaller is handed on as it is.
//
// Example:
//
//   reprise::StoreGuard guard(reprise::stores::compressed() |
//                             reprise::stores::disk({.directory = "/scratch"}));
//   loss = model->forward(x).sum();
//
// Thread-safety: thread-safe; may be shared by guards and threads. Not after fork().
#ifndef REPRISE_HOOKS_COMPRESSED_STORE_H_
#define REPRISE_HOOKS_COMPRESSED_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background_counters.h"

namespace reprise {

namespace hooks_internal {
class BackgroundMemory;
}  // namespace hooks_internal

struct CompressedOptions {
  // Of Zstandard: higher is smaller and slower, negative ones are the quickest.
  int level = 1;

  // What does not become so many times as large or smaller is handed on as it is.
  double max_ratio = 0.9;

  // Smaller tensors are handed on.
  std::size_t min_bytes = std::size_t{64} << 10;

  // Memory of tensors that are being compressed. Beyond it, put() waits.
  std::size_t max_in_flight_bytes = std::size_t{256} << 20;

  // The last so many tensors stay as they are: backward asks for them at once.
  std::size_t keep_last = 1;
};

struct CompressedCounters : BackgroundCounters {
  std::int64_t compressed_bytes = 0;  // that bytes_out have become
};

// See stores::compressed().
class REPRISE_API CompressedStore final : public ActivationStore {
 public:
  // Throws std::invalid_argument for a level that Zstandard does not have.
  explicit CompressedStore(const CompressedOptions& options);
  ~CompressedStore() override;

  // Works as DiskStore does, with memory for the disk: two threads compress, and decompress when
  // prefetch() says so. Hands on what it has compressed, as a CPU tensor of bytes, and as they are
  // small tensors, nested and quantized ones, and those that do not become smaller.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Of this store and those made of it by `|`.
  [[nodiscard]] CompressedCounters counters() const;

  // Waits until everything is compressed that is to be.
  void flush();

 private:
  using Count = std::shared_ptr<std::atomic<std::int64_t>>;
  CompressedStore(Count compressed_bytes, std::shared_ptr<hooks_internal::BackgroundMemory> memory,
                  std::shared_ptr<ActivationStore> next);

  const Count compressed_bytes_;
  const std::shared_ptr<hooks_internal::BackgroundMemory> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// A CompressedStore. What comes back is a tensor of its own, unless the original is still there.
[[nodiscard]] REPRISE_API std::shared_ptr<CompressedStore> compressed(
    const CompressedOptions& options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_COMPRESSED_STORE_H_
