// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a region remembers of the trackers of named generator states, and what its replays see.
#ifndef REPRISE_RNG_TRACKER_TRACKER_SNAPSHOT_H_
#define REPRISE_RNG_TRACKER_TRACKER_SNAPSHOT_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "reprise/rng/tracker/fork.h"
#include "reprise/rng/tracker/state_table.h"

namespace reprise::rng_internal {

// The trackers' states when a region's forward began, and the forks that its thread was in.
class TrackerSnapshot {
 public:
  // Null if there is no tracker.
  static std::shared_ptr<const TrackerSnapshot> capture();
  // `start`, which may be null, and the trackers that were made since, which were empty.
  static std::shared_ptr<const TrackerSnapshot> completed(const TrackerSnapshot* start);

 private:
  friend class ReplayedTrackers;

  struct Tracker {
    std::shared_ptr<StateTable> table;  // the tracker's own
    std::shared_ptr<StateTable> seen;   // what forward's thread saw of it
    std::shared_ptr<const States> states;
  };

  std::optional<std::size_t> index_of_seen(const std::shared_ptr<StateTable>& table) const;

  std::vector<Tracker> trackers_;
  std::vector<Swap> swaps_;  // the outermost first
};

// While alive, the calling thread sees the trackers as `start` has them, and is in the same forks.
class ReplayedTrackers {
 public:
  explicit ReplayedTrackers(const TrackerSnapshot& start);
  ~ReplayedTrackers();
  ReplayedTrackers(const ReplayedTrackers&) = delete;
  ReplayedTrackers& operator=(const ReplayedTrackers&) = delete;

 private:
  std::size_t views_before_;
  std::vector<Swap> swaps_;
};

}  // namespace reprise::rng_internal

#endif  // REPRISE_RNG_TRACKER_TRACKER_SNAPSHOT_H_
