// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/tracker/tracker_snapshot.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise::rng_internal {

std::shared_ptr<const TrackerSnapshot> TrackerSnapshot::capture() {
  const auto tables = tracker_tables();
  if (tables.empty()) return nullptr;
  auto snapshot = std::make_shared<TrackerSnapshot>();
  for (const auto& table : tables) {
    auto seen = table_here(table);
    auto states = seen->get();
    snapshot->trackers_.push_back({table, std::move(seen), std::move(states)});
  }
  snapshot->swaps_ = copy_swaps_here();
  std::erase_if(snapshot->swaps_,
                [&](const Swap& swap) { return !snapshot->index_of_seen(swap.stream->table); });
  return snapshot;
}

std::shared_ptr<const TrackerSnapshot> TrackerSnapshot::completed(const TrackerSnapshot* start) {
  auto snapshot = start == nullptr ? std::make_shared<TrackerSnapshot>()
                                   : std::make_shared<TrackerSnapshot>(*start);
  auto& known = snapshot->trackers_;
  for (const auto& table : tracker_tables()) {
    const auto is_it = [&](const Tracker& tracker) { return tracker.table == table; };
    if (std::none_of(known.begin(), known.end(), is_it)) {
      known.push_back({table, table, std::make_shared<const States>()});
    }
  }
  return snapshot;
}

std::optional<std::size_t> TrackerSnapshot::index_of_seen(
    const std::shared_ptr<StateTable>& table) const {
  for (std::size_t i = 0; i < trackers_.size(); ++i) {
    if (trackers_[i].seen == table) return i;
  }
  return std::nullopt;
}

ReplayedTrackers::ReplayedTrackers(const TrackerSnapshot& start)
    : views_before_(views_here().size()), swaps_(start.swaps_) {
  std::vector<View> replayed;
  for (const TrackerSnapshot::Tracker& tracker : start.trackers_) {
    replayed.push_back({tracker.table, std::make_shared<StateTable>(tracker.states)});
  }
  for (Swap& swap : swaps_) {
    Stream stream = *swap.stream;
    stream.table = replayed[start.index_of_seen(stream.table).value()].seen;
    swap.stream = std::make_shared<const Stream>(std::move(stream));
  }
  std::vector<View>& views = views_here();
  views.reserve(views.size() + replayed.size());
  reserve_swaps_here(swaps_.size());
  std::move(replayed.begin(), replayed.end(), std::back_inserter(views));
  add_swaps_here(swaps_);
}

ReplayedTrackers::~ReplayedTrackers() {
  remove_swaps_here(swaps_);
  std::vector<View>& views = views_here();
  views.resize(std::min(views.size(), views_before_));
}

}  // namespace reprise::rng_internal
