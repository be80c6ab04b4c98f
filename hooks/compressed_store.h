// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: compressed_store.h
//
// Stores tensors compressed in host memory, without loss; with a DiskStore behind it, on disk.
// Measures before it works: what does not become smaller, or takes too long, is forwarded as it is.
//
// Not for device memory. CPU-bound: one core compresses some hundred megabytes per second.
// Activations that are mostly 0 shrink to a fraction, others of bfloat16 to about four fifths, of
// float32 hardly at all.
//
// Example:
//
//   reprise::StoreGuard guard(reprise::stores::compressed() |
//                             reprise::stores::disk({.directory = "/scratch"}));
//   loss = model->forward(x).sum();
//
// Thread-safety: thread-safe; may be shared by guards and threads.
#ifndef REPRISE_HOOKS_COMPRESSED_STORE_H_
#define REPRISE_HOOKS_COMPRESSED_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/hooks/background_counters.h"

namespace reprise {

namespace hooks_internal {
class BackgroundOffloader;
class Compressor;
}  // namespace hooks_internal

enum class CompressionCodec : std::uint8_t {
  kAutomatic,  // kLz4, unless kZstandard saves a quarter more of a sample, or anything at all
  kLz4,        // the faster one
  kZstandard,
};

struct CompressedOptions {
  CompressionCodec codec = CompressionCodec::kAutomatic;

  // Zstandard's level: higher is smaller and slower; negative levels are the fastest.
  int level = 1;

  // Maximum ratio of compressed to original size; tensors that compress worse are forwarded
  // uncompressed.
  double max_ratio = 0.9;

  // Maximum time, as a part of the time that passes, by which the store slows the computation down:
  // waits of put() and get(), and work of the background unless it has cores to itself, over the
  // last second. Beyond it, tensors are forwarded uncompressed. 0: until anything is noticed.
  // Infinity: no matter how slow.
  double max_slowdown = 0.2;

  // Smaller tensors are forwarded.
  std::int64_t min_bytes = std::int64_t{64} << 10;

  // Maximum bytes of tensors being compressed. Beyond it, tensors are forwarded uncompressed; with
  // an infinite max_slowdown, put() waits.
  std::int64_t max_in_flight_bytes = std::int64_t{256} << 20;

  // The number of last tensors that stay uncompressed: backward asks for them immediately.
  std::int64_t keep_last = 1;
};

struct CompressedCounters : BackgroundCounters {
  std::int64_t compressed_bytes = 0;  // size of bytes_out after compression
  // Parts of bytes_forwarded:
  std::int64_t bytes_not_smaller = 0;  // above max_ratio, or of a size that was so repeatedly
  std::int64_t bytes_no_time = 0;      // beyond max_slowdown
  std::int64_t bytes_no_room = 0;  // whose two forms would have exceeded the peak without a store
};

// See stores::compressed().
class REPRISE_API CompressedStore final : public ActivationStore {
 public:
  // Throws: std::invalid_argument for a level that Zstandard does not have, a negative number, or a
  //   max_slowdown that is not a number.
  explicit CompressedStore(CompressedOptions options);
  ~CompressedStore() override;

  // As DiskStore::put(), with memory in place of the disk: two threads compress, and decompress at
  // prefetch(). Forwards its compressed output as CPU tensors of bytes, of about a megabyte; and
  // unchanged, small tensors, nested and quantized ones, and tensors that are not to be compressed.
  // A tensor that exists twice while it is compressed never takes more than the largest step
  // without the store; so of tensors that remain above a megabyte, the first step compresses some.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  [[nodiscard]] bool copies_on_device(const at::Tensor& tensor) const override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Returns the counters of this store and of the stores made from it by `|`.
  [[nodiscard]] CompressedCounters counters() const;

  // Waits until all pending compression is done.
  void flush();

 private:
  CompressedStore(std::shared_ptr<hooks_internal::Compressor> compressor,
                  std::shared_ptr<hooks_internal::BackgroundOffloader> memory,
                  std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::Compressor> compressor_;
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
