// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The results of one step that its plan puts into stores: when they leave memory, and when they are
// fetched.
//
// Note [Stores within a budget]: memory that a thread of a store allocates cannot be refused, so
// none does while the computation goes on. A store that copies on the device works while its caller
// waits, and has room for the copy. Of other stores only the way out is left to their threads; a
// tensor that has not left when memory runs out is waited for, before anything is evicted. On the
// way back the memory is the caller's, when the plan says so and there is room, or at last when
// backward needs it.
#ifndef REPRISE_ENGINE_BUDGET_STORED_VALUES_H_
#define REPRISE_ENGINE_BUDGET_STORED_VALUES_H_

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/budget/known_step.h"
#include "reprise/engine/budget/memory_guard.h"
#include "reprise/engine/budget/store_probe.h"
#include "reprise/engine/tape/tape_retention.h"
#include "reprise/hooks/activation_store.h"

namespace reprise::engine_internal {

// Thread-safe, but for what is forward's.
class StoredValues : public std::enable_shared_from_this<StoredValues> {
 public:
  StoredValues(MemoryGuard& guard, std::int64_t limit_bytes)
      : guard_(guard), limit_bytes_(limit_bytes) {}

  // Of forward's thread. `number` is that of the value in the plan's script; it goes to one of the
  // plan's stores, or stays.
  void note_result(std::uint32_t number, TapeValueId value);
  std::shared_ptr<ActivationStore> store_for(std::uint32_t number,
                                             std::shared_ptr<ActivationStore> store,
                                             const PlannedStore& planned);

  // Backward reads a value: starts to fetch those that it needs soon.
  void note_read(TapeValueId value, const StepPlan& plan);

  // Waits until `bytes` have left that are about to, or all of them. Returns the bytes that have.
  std::int64_t wait_for_departures(std::int64_t bytes);

  std::int64_t stored_bytes() const { return stored_bytes_; }

 private:
  class Place;
  class Stored;
  using Clock = std::chrono::steady_clock;

  struct Departure {
    std::weak_ptr<StoredTensor> tensor;
    std::int64_t bytes = 0;
    Clock::time_point due = {};
  };

  void add(std::uint32_t number, Departure departure, const PlannedStore& planned);
  // Removes those that have left, and those that are overdue. Returns the bytes of the former.
  std::int64_t remove_departed();
  std::int64_t departing_bytes() const;
  void fetch(std::uint32_t number);
  std::int64_t shortage(std::int64_t bytes) const;
  void make_room(std::int64_t bytes);

  MemoryGuard& guard_;
  const std::int64_t limit_bytes_;
  std::atomic<std::int64_t> stored_bytes_ = 0;
  mutable Mutex mutex_;
  absl::flat_hash_map<TapeValueId, std::uint32_t> numbers_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint32_t, int> reads_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint32_t, Departure> stored_ ABSL_GUARDED_BY(mutex_);
  std::vector<Departure> departures_ ABSL_GUARDED_BY(mutex_);
  // By store, if it keeps its last tensor until there is another one.
  absl::flat_hash_map<int, Departure> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STORED_VALUES_H_
