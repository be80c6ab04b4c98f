// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: slab_store.h
//
// Keeps copies of tensors next to each other, in one piece of memory on their device that every
// step uses again: what lives from forward to backward does not lie between what is soon freed, so
// that the allocator's memory stays in large pieces.
//
// Not where memory is short by less than that: for the moment of the copy a tensor is there twice,
// and once more as long as somebody holds the original. Not for code that changes kept tensors in
// place.
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
class SlabMemory;
}  // namespace hooks_internal

struct SlabOptions {
  // Of the slab that the first tensor of a device makes. 0: each tensor of the first step gets a
  // slab of its own, and the next step one that has room for all that were there at a time.
  std::size_t initial_bytes = 0;

  // The same, as room for so many tensors as large as the first.
  std::size_t initial_tensors = 0;

  // Smaller tensors are handed on.
  std::size_t min_bytes = 4096;
};

// Over all devices.
struct SlabCounters {
  std::size_t slab_bytes = 0;          // memory that the store has
  std::size_t used_bytes = 0;          // of it by tensors, and to the next multiple of 512
  std::size_t peak_used_bytes = 0;     // the most of that at a time
  std::size_t largest_free_bytes = 0;  // the largest free piece
  std::int64_t slabs = 0;              // pieces of memory: 1 a device from the second step on
  std::int64_t growths = 0;            // slabs made because one that had been sized was full
};

// See stores::slab().
class REPRISE_API SlabStore final : public ActivationStore {
 public:
  explicit SlabStore(const SlabOptions& options);
  ~SlabStore() override;

  // Copies on the current stream; the host waits for nothing. Each storage is kept once, however
  // many views of it are put; of views smaller than half of their storage, the elements. What comes
  // back is a view of the slab, of any dtype; to change it in place is an error in the next get().
  // A part of the slab is free again when the stored tensors and all that came back are gone, on
  // whatever stream; whoever gets it next waits for that. If a sized slab is full, another one is
  // made, and a warning says so once; when nothing is left in the store, one takes the place of
  // all. Of sparse tensors, indices and values are kept as dense ones are. Hands on: small tensors,
  // nested and quantized ones.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Of this store and those made of it by `|`.
  [[nodiscard]] SlabCounters counters() const;

 private:
  SlabStore(std::shared_ptr<hooks_internal::SlabMemory> memory,
            std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<hooks_internal::SlabMemory> memory_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// A SlabStore. After DeepSpeed's contiguous_memory_optimization, without its count of layers, and
// for tensors of any size and dtype, in any order of forward and backward.
[[nodiscard]] REPRISE_API std::shared_ptr<SlabStore> slab(const SlabOptions& options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_HOOKS_SLAB_STORE_H_
