// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: partitioned_store.h
//
// Shards each tensor across the ranks of a process group. For tensors that are replicated on all
// ranks: with tensor parallelism, the inputs of regions. Each of n ranks stores an n-th of them,
// and backward gathers the whole, one region ahead.
//
// Not for tensors that differ between ranks (data parallelism): they would come back mixed, which
// is detected only with check_order.
//
// Example:
//
//   auto group = reprise::init_process_group_from_env();  // or any c10d::ProcessGroup
//   reprise::CheckpointOptions options{.input_store = reprise::stores::partitioned(group)};
//   h = reprise::checkpoint(options, block, h);
//
// Thread-safety: thread-safe. But collectives of one group pair up in the order in which each rank
// starts them: the ranks must put, prefetch and get in the same order, as the backward of the same
// graph on one thread does.
#ifndef REPRISE_PARTITION_PARTITIONED_STORE_H_
#define REPRISE_PARTITION_PARTITIONED_STORE_H_

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/hooks/activation_store.h"

namespace c10d {
class ProcessGroup;
}  // namespace c10d

namespace reprise {

namespace partition_internal {
class Gatherer;
}  // namespace partition_internal

struct PartitionedOptions {
  // Smaller tensors are forwarded whole.
  std::int64_t min_bytes = 4096;

  // Before each gather the ranks exchange, over the store of the group's rendezvous, a description
  // of it: dtypes, shapes and a hash of the values that were put. If they disagree, or a rank has
  // not arrived by check_timeout, all ranks that have arrived throw a PartitionError with the
  // request of each. For debugging a hang or wrong gradients, not for training: the host waits for
  // the device at each put(), and for all ranks at each gather. Must be the same on all ranks.
  bool check_order = false;
  std::chrono::milliseconds check_timeout = std::chrono::minutes(5);
};

struct PartitionedCounters {
  std::int64_t gathers = 0;  // collectives that were started
  std::int64_t gathered_bytes = 0;
};

// See stores::partitioned().
class REPRISE_API PartitionedStore final : public ActivationStore {
 public:
  // Shares ownership of the group.
  //
  // Throws: std::invalid_argument if it is null or, with check_order, has no c10d::Store.
  explicit PartitionedStore(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            PartitionedOptions options = {});
  ~PartitionedStore() override;

  // Copies this rank's shard into memory of its own, so that the tensor can be freed. Does not
  // communicate: the tensor must be the same on all ranks. Tensors that are put together form a
  // slab, each aligned to 64 bytes, and come back by one collective. A shard is an n-th of the
  // slab, rounded up to 16 bytes. Forwards the shard, and, whole, tensors smaller than min_bytes,
  // nested and quantized tensors, and everything in a group of one rank. Indices and values of
  // sparse tensors are stored like dense tensors.
  //
  // prefetch() starts the gather, and get() waits for it. If another store has the shard, the first
  // prefetch() fetches that, and the next one gathers: with a prefetch_depth of 2 both happen
  // ahead. The gathered slab is released when each of its live tensors has been requested; a later
  // get() gathers again.
  //
  // Throws: PartitionError if the group has no backend for the tensor's device, or, in get(), if a
  //   gather fails; a rank that has exited is detected by the group's timeout.
  // Stream: gathers on the stream that was current in put(). get() blocks the host on a CPU, the
  //   current stream and that of put() on an accelerator.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                     const std::string& owner) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Returns the counters of this store and of the stores made from it by `|`.
  [[nodiscard]] PartitionedCounters counters() const;

 private:
  PartitionedStore(std::shared_ptr<partition_internal::Gatherer> gatherer, std::int64_t min_bytes,
                   std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<partition_internal::Gatherer> gatherer_;
  const std::int64_t min_bytes_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// Returns a PartitionedStore. Its tensors come back in memory of their own, with the layout of
// packed().
[[nodiscard]] REPRISE_API std::shared_ptr<PartitionedStore> partitioned(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, PartitionedOptions options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_PARTITION_PARTITIONED_STORE_H_
