// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The collectives of a PartitionedStore.
#ifndef REPRISE_PARTITION_GATHERING_GATHERER_H_
#define REPRISE_PARTITION_GATHERING_GATHERER_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "reprise/partition/gathering/gather_order.h"
#include "reprise/partition/gathering/slab_layout.h"
#include "reprise/partition/partitioned_store.h"

namespace reprise::partition_internal {

// A collective that was started.
struct Gather {
  at::Tensor slab;
  c10::intrusive_ptr<c10d::Work> work;
  std::optional<c10::Stream> stream;  // on which it was started and its memory allocated
};

class Gatherer {
 public:
  Gatherer(const c10::intrusive_ptr<c10d::ProcessGroup>& group, PartitionedOptions options);

  int rank() const { return group_->getRank(); }
  int size() const { return group_->getSize(); }
  PartitionedCounters counters() const { return {gathers_.load(), gathered_bytes_.load()}; }

  // Throws PartitionError if the group has no backend for it.
  void check_device(c10::Device device) const;

  // The slab's name in messages, and the description that ranks compare.
  GatherDescription describe(const SlabLayout& layout, const std::vector<at::Tensor>& rows,
                             const std::string& owner);

  // Starts to gather the slab of which `part` is this rank's shard. On an accelerator after the
  // work queued on the current stream.
  Gather start(const at::Tensor& part, const GatherDescription& description);

  // Returns when the slab can be used on the current stream, and the memory of the part again on
  // the stream on which the gather was started.
  void wait(const Gather& gather, const GatherDescription& description) const;

 private:
  // The current stream, or on a CPU the host, waits.
  void wait_here(const Gather& gather, const GatherDescription& description) const;
  [[noreturn]] void fail(const std::exception& error, const GatherDescription& description) const;

  const c10::intrusive_ptr<c10d::ProcessGroup> group_;
  const std::shared_ptr<GatherOrder> order_;
  const PartitionedOptions options_;
  const c10::intrusive_ptr<c10d::Store> check_store_;  // null without check_order
  std::atomic<std::size_t> puts_ = 0;
  std::atomic<std::int64_t> gathers_ = 0;
  std::atomic<std::int64_t> gathered_bytes_ = 0;
};

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_GATHERER_H_
