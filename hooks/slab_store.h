// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: slab_store.h
//
// Stores copies of tensors next to each other, in one piece of device memory that each step reuses.
// Keeps long-lived activations out of the caching allocator's free lists, which avoids
// fragmentation.
//
// Not for reducing the peak itself: a tensor exists twice during the copy, and as long as the
// original has other owners. Not for code that modifies saved tensors in place.
//
// Example:
//
//   auto slab = reprise::stores::slab();
//   const reprise::CheckpointOptions options{.input_store = slab};
//   for (const Block& block : blocks) h = reprise::checkpoint(options, block, h);
//
// Thread-safety: thread-safe; may be shared by guards and threads.
#ifndef REPRISE_HOOKS_SLAB_STORE_H_
#define REPRISE_HOOKS_SLAB_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace reprise {

namespace hooks_internal {
class SlabPool;
}  // namespace hooks_internal

struct SlabOptions {
  // Size of the slab that the first tensor of a device creates. 0: each tensor of the first step
  // gets a slab of its own, and the next step one slab with space for all that existed at a time.
  std::int64_t initial_bytes = 0;

  // The same, as a number of tensors as large as the first.
  std::int64_t initial_tensors = 0;

  // Smaller tensors are forwarded.
  std::int64_t min_bytes = 4096;
};

// Over all devices.
struct SlabCounters {
  std::int64_t slab_bytes = 0;  // memory of the store
  std::int64_t used_bytes = 0;  // the part used by tensors, each rounded up to a multiple of 512
  std::int64_t peak_used_bytes = 0;     // its maximum
  std::int64_t largest_free_bytes = 0;  // the largest free piece
  std::int64_t slabs = 0;               // pieces of memory: 1 per device from the second step on
  std::int64_t growths = 0;             // slabs created because a sized one was full
};

// See stores::slab().
class REPRISE_API SlabStore final : public ActivationStore {
 public:
  explicit SlabStore(SlabOptions options);
  ~SlabStore() override;

  // Each storage is stored once, however many views of it are put; for views smaller than half of
  // their storage, the elements. get() returns a view of the slab, of any dtype; modifying it is an
  // error in the next get(). A part of the slab is reusable when the stored tensors and all results
  // of get() are destroyed, on any stream; its next user waits for them. If a sized slab is full,
  // another one is created, with one warning; when the store is empty, one slab replaces all of
  // them. Indices and values of sparse tensors are stored like dense tensors. Forwards small
  // tensors, nested and quantized ones.
  //
  // Stream: copies on the current stream; the host does not wait.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Returns the counters of this store and of the stores made from it by `|`.
  [[nodiscard]] SlabCounters counters() const;

 private:
  SlabStore(std::shared_ptr<hooks_internal::SlabPool> memory,
            std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::SlabPool> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// Returns a SlabStore. After DeepSpeed's contiguous_memory_optimization, but without its count of
// layers, and for tensors of any size and dtype, in any order of forward and backward.
[[nodiscard]] REPRISE_API std::shared_ptr<SlabStore> slab(SlabOptions options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_SLAB_STORE_H_
