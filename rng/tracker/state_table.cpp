// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/tracker/state_table.h"

#include <algorithm>
#include <atomic>
#include <cstddef>

namespace reprise::rng_internal {
namespace {

// Never freed: a tracker may be destroyed, and a tensor be saved, during static destruction.
struct Trackers {
  std::mutex mutex;
  std::vector<std::shared_ptr<StateTable>> tables;
  std::atomic<std::size_t> count{0};
};

Trackers& trackers() {
  static auto& trackers = *new Trackers;
  return trackers;
}

}  // namespace

std::shared_ptr<const States> StateTable::get() const {
  const std::scoped_lock lock(mutex_);
  return states_;
}

void StateTable::change(const std::function<void(States&)>& change) {
  const std::scoped_lock lock(mutex_);
  auto states = std::make_shared<States>(*states_);
  change(*states);
  states_ = std::move(states);
}

void add_tracker(const std::shared_ptr<StateTable>& table) {
  const std::scoped_lock lock(trackers().mutex);
  trackers().tables.push_back(table);
  trackers().count = trackers().tables.size();
}

void remove_tracker(const std::shared_ptr<StateTable>& table) noexcept {
  const std::scoped_lock lock(trackers().mutex);
  auto& tables = trackers().tables;
  tables.erase(std::remove(tables.begin(), tables.end(), table), tables.end());
  trackers().count = tables.size();
}

// Most programs have no tracker, and each region asks.
std::vector<std::shared_ptr<StateTable>> tracker_tables() {
  if (trackers().count.load(std::memory_order_relaxed) == 0) return {};
  const std::scoped_lock lock(trackers().mutex);
  return trackers().tables;
}

std::vector<View>& views_here() noexcept {
  thread_local std::vector<View> t_views;
  return t_views;
}

std::shared_ptr<StateTable> table_here(const std::shared_ptr<StateTable>& table) {
  const std::vector<View>& views = views_here();
  const auto found = std::find_if(views.rbegin(), views.rend(),
                                  [&](const View& view) { return view.table == table; });
  return found == views.rend() ? table : found->seen;
}

TrackerUses& tracker_uses() noexcept {
  thread_local TrackerUses t_uses;
  return t_uses;
}

}  // namespace reprise::rng_internal
