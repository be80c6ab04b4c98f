// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: partitioned_store.h
//
// Keeps a part of each tensor on each rank of a process group. For tensors that all ranks hold
// alike: with tensor parallelism, the inputs of regions. Each of n ranks keeps an n-th of them, and
// backward gathers the whole again, one region ahead.
//
// Not for tensors that differ between ranks (data parallelism): they would come back mixed, unseen
// unless check_order is on.
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
  // Smaller tensors are handed on whole.
  std::size_t min_bytes = 4096;

  // Before each gather the ranks tell each other, over the store at which the group met, what they
  // are about to gather: dtypes, shapes and a hash of the values that were put. If they disagree,
  // or one has not come by check_timeout, all that have come throw a PartitionError with what each
  // wanted. For hunting a hang or wrong gradients, not for training: the host waits for the device
  // at each put(), and for all ranks at each gather. To be set alike on all ranks.
  bool check_order = false;
  std::chrono::milliseconds check_timeout = std::chrono::minutes(5);
};

struct PartitionedCounters {
  std::size_t gathers = 0;  // collectives that were started
  std::size_t gathered_bytes = 0;
};

// See stores::partitioned().
class REPRISE_API PartitionedStore final : public ActivationStore {
 public:
  // Keeps the group. std::invalid_argument if it is null or, with check_order, has no c10d::Store.
  explicit PartitionedStore(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                            const PartitionedOptions& options = {});
  ~PartitionedStore() override;

  // Copies this rank's part into memory of its own, so that the tensor can be freed. No
  // communication: the tensor must be the same on all ranks. Tensors that are put together lie one
  // after another in a slab, each from a multiple of 64 bytes on, and come back by one collective.
  // A rank's part is an n-th of the slab, rounded up to 16 bytes. Hands on that part and, whole,
  // what is smaller than min_bytes, nested and quantized tensors, and everything in a group of one
  // rank. Of sparse tensors, indices and values are kept as dense ones are. Throws PartitionError
  // if the group has no backend for the tensor's device.
  //
  // prefetch() starts to gather, on an accelerator on the stream that was current in put(), and
  // get() waits: the host on a CPU, the current stream and that of put() on an accelerator. If
  // another store has the part, the first prefetch() starts to bring that, and the next one
  // gathers: with a prefetch_depth of 2 both happen ahead. The gathered slab is given up when each
  // of its tensors that are still there has been got; get() after that gathers anew. PartitionError
  // if a gather fails; what a rank that is gone leads to, and when, is the group's timeout.
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override;
  std::vector<std::unique_ptr<StoredTensor>> put_all(const std::vector<at::Tensor>& tensors,
                                                     const std::string& owner) override;
  std::shared_ptr<ActivationStore> followed_by(std::shared_ptr<ActivationStore> next) override;

  // Of this store and those made of it by `|`.
  [[nodiscard]] PartitionedCounters counters() const;

 private:
  PartitionedStore(std::shared_ptr<partition_internal::Gatherer> gatherer, std::size_t min_bytes,
                   std::shared_ptr<ActivationStore> next);

  const std::shared_ptr<partition_internal::Gatherer> gatherer_;
  const std::size_t min_bytes_;
  const std::shared_ptr<ActivationStore> next_;
};

namespace stores {

// A PartitionedStore. What comes back lies in memory of its own, and is laid out as by packed().
[[nodiscard]] REPRISE_API std::shared_ptr<PartitionedStore> partitioned(
    const c10::intrusive_ptr<c10d::ProcessGroup>& group, const PartitionedOptions& options = {});

}  // namespace stores

}  // namespace reprise

#endif  // REPRISE_PARTITION_PARTITIONED_STORE_H_
