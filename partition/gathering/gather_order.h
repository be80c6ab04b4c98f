// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The gathers of one process group, one after another, of all stores.
#ifndef REPRISE_PARTITION_GATHERING_GATHER_ORDER_H_
#define REPRISE_PARTITION_GATHERING_GATHER_ORDER_H_

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace reprise::partition_internal {

struct GatherDescription {
  std::string name;      // of the requester: may differ between ranks
  std::string contents;  // the description: must be the same on all
};

class GatherOrder {
 public:
  // Returns the order of the group, one per group for its lifetime: stores may be destroyed, but
  // the descriptions of a gather must not be mistaken for another's.
  static std::shared_ptr<GatherOrder> of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  // Held while a gather is started, so that the order here is that of the group.
  std::mutex& mutex() { return mutex_; }

  // Called with the mutex: returns when all ranks are about to start the same gather. Throws
  // PartitionError if they differ, or at the timeout.
  void check_next(c10d::Store& store, const c10d::ProcessGroup& group,
                  const GatherDescription& description, std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::uint64_t checked_ = 0;
};

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_GATHER_ORDER_H_
