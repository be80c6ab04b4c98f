// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The gathers of one process group, one after another, whichever store they are of.
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

struct GatherWords {
  std::string name;      // who wants it: may differ between ranks
  std::string contents;  // what it is: must be the same on all
};

class GatherOrder {
 public:
  // One for each group, as long as that is there: stores may come and go, but what the ranks have
  // noted for a gather must not be taken for another's.
  static std::shared_ptr<GatherOrder> of(const c10::intrusive_ptr<c10d::ProcessGroup>& group);

  // Held while a gather is started, so that the order here is that of the group.
  std::mutex& mutex() { return mutex_; }

  // With the mutex: returns when all ranks are about to gather the same. Throws PartitionError if
  // they are not, or not in time.
  void check_next(c10d::Store& store, const c10d::ProcessGroup& group, const GatherWords& words,
                  std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::uint64_t checked_ = 0;
};

}  // namespace reprise::partition_internal

#endif  // REPRISE_PARTITION_GATHERING_GATHER_ORDER_H_
