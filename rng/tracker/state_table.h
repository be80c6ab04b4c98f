// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tables of named generator states, one per tracker, and a thread's view of them.
//
// Note [Replays see their own named states]: a replay has a private table with the tracker's
// contents from the beginning of the region's forward. Nothing has to be restored after a replay,
// however it ends, and replays on several threads, or forward on another, do not affect each
// other's named states.
#ifndef REPRISE_RNG_TRACKER_STATE_TABLE_H_
#define REPRISE_RNG_TRACKER_STATE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/rng/rng_state_tracker.h"

namespace reprise::rng_internal {

using States = RngStateTracker::States;

// The named states of a tracker, or the ones that a replay sees in their place. Thread-safe.
class StateTable {
 public:
  explicit StateTable(std::shared_ptr<const States> states = std::make_shared<const States>())
      : states_(std::move(states)) {}

  std::shared_ptr<const States> get() const;
  // Modifies a copy, so that results of get() are unaffected. No effect if `change` throws.
  void change(const std::function<void(States&)>& change);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const States> states_;
};

// The tables of the trackers that exist.
void add_tracker(const std::shared_ptr<StateTable>& table);
void remove_tracker(const std::shared_ptr<StateTable>& table) noexcept;
std::vector<std::shared_ptr<StateTable>> tracker_tables();

// A thread's replacement of a tracker's own table.
struct View {
  std::shared_ptr<StateTable> table;
  std::shared_ptr<StateTable> seen;
};

// The views of the calling thread, the innermost last.
std::vector<View>& views_here() noexcept;

// Returns the calling thread's view of the tracker that owns `table`.
std::shared_ptr<StateTable> table_here(const std::shared_ptr<StateTable>& table);

// Numbers of uses of a tracker, and of draws inside a fork, by the calling thread.
struct TrackerUses {
  std::uint64_t uses = 0;
  std::uint64_t draws = 0;
};
REPRISE_API TrackerUses& tracker_uses() noexcept;

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_TRACKER_STATE_TABLE_H_
