// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The best plans found so far.
#ifndef REPRISE_PLANNER_SEARCH_ARCHIVE_H_
#define REPRISE_PLANNER_SEARCH_ARCHIVE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

struct Found {
  planner::Plan plan;
  planner::Simulation simulation;
  std::string_view method;  // of a string literal
};

// None of its plans is at least as small and as fast as another one.
class Archive {
 public:
  // Plans that are not valid are left out.
  void add(const planner::Plan& plan, const planner::Simulation& simulation,
           std::string_view method);

  // Returns the fastest plan whose peak is at most `peak_bytes`; null if there is none. Valid until
  // the next call of add().
  const Found* fastest_within(std::int64_t peak_bytes) const;
  // Returns the smallest plan that takes at most `seconds`; null if there is none.
  const Found* smallest_within(double seconds) const;
  const Found* smallest() const;
  // Returns the smallest plan above `peak_bytes`, the next that is faster; null if there is none.
  const Found* next_above(std::int64_t peak_bytes) const;

 private:
  std::map<std::int64_t, Found> by_peak_;  // the larger the faster
};

// Counts what is tried, and keeps the best of it. A simulation of a step that takes n times as long
// because of what it recomputes counts n times.
class Trials {
 public:
  Trials(const planner::Simulator& simulator, Archive& archive)
      : simulator_(simulator),
        archive_(archive),
        step_seconds_(std::max(simulator.trace().seconds(), std::numeric_limits<double>::min())) {}

  void allow(int simulations) { left_ = simulations; }
  int left() const { return left_; }
  bool is_over() const { return left_ <= 0; }
  void spend(int simulations) { left_ -= simulations; }

  planner::Simulation run(const planner::Plan& plan, std::string_view method);

  const Archive& archive() const { return archive_; }

 private:
  const planner::Simulator& simulator_;
  Archive& archive_;
  const double step_seconds_;  // without recomputation
  int left_ = 0;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_ARCHIVE_H_
