// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: compressed_store.h
//
// Stores tensors compressed in host memory, without loss; with a DiskStore behind it, on disk.
//
// Not for device memory. CPU-bound: one core compresses a few hundred megabytes per second.
// Activations that are mostly 0 shrink to a fraction, others of bfloat16 to about four fifths, of
// float32 hardly at all; tensors that do not become smaller are forwarded uncompressed.
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
class BackgroundOffloader;
}  // namespace hooks_internal

struct CompressedOptions {
  // Zstandard's level: higher is smaller and slower; negative levels are the fastest.
  int level = 1;

  // Maximum ratio of compressed to original size; tensors that compress worse are forwarded
  // uncompressed.
  double max_ratio = 0.9;

  // Smaller tensors are forwarded.
  std::int64_t min_bytes = std::int64_t{64} << 10;

  // Maximum bytes of tensors being compressed. Beyond it, put() waits.
  std::int64_t max_in_flight_bytes = std::int64_t{256} << 20;

  // The number of last tensors that stay uncompressed: backward asks for them immediately.
  std::int64_t keep_last = 1;
};

struct CompressedCounters : BackgroundCounters {
  std::int64_t compressed_bytes = 0;  // size of bytes_out after compression
};

// See stores::compressed().
class REPRISE_API CompressedStore final : public ActivationStore {
 public:
  // Throws: std::invalid_argument for a level that Zstandard does not have.
  explicit CompressedStore(CompressedOptions options);
  ~CompressedStore() override;

  // As DiskStore::put(), with memory in place of the disk: two threads compress, and decompress at
  // prefetch(). Forwards its compressed output as a CPU tensor of bytes, and, unchanged, small
  // tensors, nested and quantized ones, and tensors that do not become smaller.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Returns the counters of this store and of the stores made from it by `|`.
  [[nodiscard]] CompressedCounters counters() const;

  // Waits until all pending compression is done.
  void flush();

 private:
  using Count = std::shared_ptr<std::atomic<std::int64_t>>;
  CompressedStore(Count compressed_bytes,
                  std::shared_ptr<hooks_internal::BackgroundOffloader> memory,
                  std::shared_ptr<ActivationStore> next);

  const Count compressed_bytes_;
  const std::shared_ptr<hooks_internal::BackgroundOffloader> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// Returns a CompressedStore. Its tensors come back in memory of their own, unless the original
// still exists.
[[nodiscard]] REPRISE_API std::shared_ptr<CompressedStore> compressed(
    CompressedOptions options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_COMPRESSED_STORE_H_
