// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A region's record of the trackers of named generator states, and the view of its replays.
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
  // Returns null if there is no tracker.
  static std::shared_ptr<const TrackerSnapshot> capture();
  // `start`, which may be null, and the trackers that were made since, which were empty.
  static std::shared_ptr<const TrackerSnapshot> completed(const TrackerSnapshot* start);

 private:
  friend class ReplayedTrackers;

  struct Tracker {
    std::shared_ptr<StateTable> table;  // the tracker's own
    std::shared_ptr<StateTable> seen;   // its view on forward's thread
    std::shared_ptr<const States> states;
  };

  std::optional<std::size_t> index_of_seen(const std::shared_ptr<StateTable>& table) const;

  std::vector<Tracker> trackers_;
  std::vector<Swap> swaps_;  // the outermost first
};

// While alive, the calling thread's view of the trackers is that of `start`, with the same forks.
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
