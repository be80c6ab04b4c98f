// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors that were put together, and are gathered together.
//
// Note [Collectives in one order]: each gather must be started by all ranks, and two gathers in the
// same order by all. Whether a call gathers thus depends only on the calls before it, and never on
// time, on free memory, or on whether an earlier gather's result still has an owner.
//
// Note [Streams of a gather]: a prefetching thread may not be ordered after the shard's completion:
// it may run the backward of a region on another stream, or on another device's thread. A gather is
// therefore started on the stream that was current in put(), and uses memory of that stream. get()
// makes that stream wait as well as its own: memory released there is not reused before the
// collective has read it.
#ifndef REPRISE_PARTITION_GATHERING_PARTITIONED_SLAB_H_
#define REPRISE_PARTITION_GATHERING_PARTITIONED_SLAB_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "reprise/hooks/activation_store.h"
#include "reprise/partition/gathering/gatherer.h"
#include "reprise/partition/gathering/slab_layout.h"

namespace reprise::partition_internal {

class PartitionedSlab {
 public:
  // Puts this rank's shard into `next`. is_forwarded: that is a store that may have to fetch it.
  static std::shared_ptr<PartitionedSlab> put(std::shared_ptr<Gatherer> gatherer,
                                              const std::vector<at::Tensor>& tensors,
                                              ActivationStore& next, bool is_forwarded,
                                              const std::string& owner);

  PartitionedSlab(std::shared_ptr<Gatherer> gatherer, SlabLayout layout,
                  GatherDescription description, std::unique_ptr<StoredTensor> part,
                  bool is_forwarded, std::optional<c10::Stream> stream);

  // The requests to the entry of the tensor at `index`.
  void prefetch(std::size_t index);
  at::Tensor get(std::size_t index);
  void let_go(std::size_t index);
  std::int64_t device_bytes(std::size_t index) const;

 private:
  struct Entry {
    bool is_alive = true;
    bool is_got = false;         // since the gather
    bool is_prefetched = false;  // since the slab was released
  };

  using Lock = std::unique_lock<std::mutex>;

  // Starts to gather without the lock, as the shard's store and the collective are foreign code;
  // other callers wait for it meanwhile.
  void gather(Lock& lock);
  // Releases the gathered slab once all entries have their tensors. The result must be freed
  // outside of the lock.
  std::optional<Gather> give_up_if_done();

  const std::shared_ptr<Gatherer> gatherer_;
  const SlabLayout layout_;
  const GatherDescription description_;
  const bool is_forwarded_;
  const std::unique_ptr<StoredTensor> part_;
  const std::optional<c10::Stream> stream_;  // of put()

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  bool is_starting_ = false;        // to gather
  std::optional<Gather> gathered_;  // or in progress
  std::condition_variable has_started_;
};

class SlabEntry final : public StoredTensor {
 public:
  SlabEntry(std::shared_ptr<PartitionedSlab> slab, std::size_t index)
      : slab_(std::move(slab)), index_(index) {}
  ~SlabEntry() override { slab_->let_go(index_); }

  void prefetch() override { slab_->prefetch(index_); }
  at::Tensor get() override { return slab_->get(index_); }
  [[nodiscard]] std::int64_t device_bytes() const override { return slab_->device_bytes(index_); }

 private:
  const std::shared_ptr<PartitionedSlab> slab_;
  const std::size_t index_;
};

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_PARTITIONED_SLAB_H_
