// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/archive.h"

#include <iterator>

namespace reprise::planner_internal {

void Archive::add(const planner::Plan& plan, const planner::Simulation& simulation,
                  std::string_view method) {
  if (!simulation.is_valid) {
    return;
  }
  const Found* as_small = fastest_within(simulation.peak_bytes);
  if (as_small != nullptr && as_small->simulation.seconds <= simulation.seconds) {
    return;
  }
  auto worse = by_peak_.lower_bound(simulation.peak_bytes);
  while (worse != by_peak_.end() && worse->second.simulation.seconds >= simulation.seconds) {
    worse = by_peak_.erase(worse);
  }
  by_peak_[simulation.peak_bytes] = {plan, simulation, method};
}

const Found* Archive::fastest_within(std::int64_t peak_bytes) const {
  const auto above = by_peak_.upper_bound(peak_bytes);
  return above == by_peak_.begin() ? nullptr : &std::prev(above)->second;
}

const Found* Archive::smallest_within(double seconds) const {
  for (const auto& [peak, found] : by_peak_) {
    if (found.simulation.seconds <= seconds) {
      return &found;
    }
  }
  return nullptr;
}

const Found* Archive::smallest() const {
  return by_peak_.empty() ? nullptr : &by_peak_.begin()->second;
}

const Found* Archive::next_above(std::int64_t peak_bytes) const {
  const auto above = by_peak_.upper_bound(peak_bytes);
  return above == by_peak_.end() ? nullptr : &above->second;
}

planner::Simulation Trials::run(const planner::Plan& plan, std::string_view method) {
  planner::Simulation simulation = simulator_.run(plan);
  left_ -= 1 + static_cast<int>(simulation.recompute_seconds / step_seconds_);
  archive_.add(plan, simulation, method);
  return simulation;
}

}  // namespace reprise::planner_internal
