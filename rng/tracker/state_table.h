// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tables of named generator states, one for each tracker, and what a thread sees of them.
//
// Note [Replays see their own named states]: a replay gets a table of its own, as the tracker's was
// when the region's forward began, and only the thread that replays sees it. So there is nothing to
// put back after a replay, whatever ends it, and replays on several threads, or forward on another,
// do not disturb each other's named states.
#ifndef REPRISE_RNG_TRACKER_STATE_TABLE_H_
#define REPRISE_RNG_TRACKER_STATE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "reprise/rng/rng_state_tracker.h"

namespace reprise::rng_internal {

using States = RngStateTracker::States;

// The named states of a tracker, or those that a replay sees in their place. Thread-safe.
class StateTable {
 public:
  explicit StateTable(std::shared_ptr<const States> states = std::make_shared<const States>())
      : states_(std::move(states)) {}

  std::shared_ptr<const States> get() const;
  // Changes a copy, so that what get() gave stays as it is. Nothing is changed if `change` throws.
  void change(const std::function<void(States&)>& change);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const States> states_;
};

// The tables of the trackers that exist.
void add_tracker(const std::shared_ptr<StateTable>& table);
void remove_tracker(const std::shared_ptr<StateTable>& table) noexcept;
std::vector<std::shared_ptr<StateTable>> tracker_tables();

// What a thread sees in place of a tracker's own table.
struct View {
  std::shared_ptr<StateTable> table;
  std::shared_ptr<StateTable> seen;
};

// Of the calling thread, the innermost last.
std::vector<View>& views_here() noexcept;

// What the calling thread sees of the tracker that owns `table`.
std::shared_ptr<StateTable> table_here(const std::shared_ptr<StateTable>& table);

// How often the calling thread has used a tracker, and how often it has drawn inside a fork.
struct TrackerUses {
  std::uint64_t uses = 0;
  std::uint64_t draws = 0;
};
TrackerUses& tracker_uses() noexcept;

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_TRACKER_STATE_TABLE_H_
