// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Improves a plan by small changes.
#ifndef REPRISE_PLANNER_SEARCH_LOCAL_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_LOCAL_SEARCH_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/search/archive.h"
#include "reprise/planner/search/eviction.h"
#include "reprise/planner/search/problem.h"
#include "reprise/planner/search/reruns.h"
#include "reprise/planner/search/retain_menu.h"

namespace reprise::planner_internal {

// Of two plans that fit, the faster one is better, then the smaller one; of others the smaller one.
class LocalSearch {
 public:
  LocalSearch(const Problem& problem, const RetainMenu& menu, Trials& trials, Plan start,
              std::int64_t peak_bytes);

  // Changes the plan until no change that is looked at is better, or the trials are over.
  void run();

  const Plan& plan() const { return plan_; }
  const planner::Simulation& simulation() const { return best_; }

 private:
  struct Change {
    ValueId value;
    planner::Choice choice;
  };
  struct Scored {
    Change change;
    double seconds;  // that it adds; an estimate
    double score;
  };

  bool fits() const { return best_.is_valid && best_.peak_bytes <= peak_bytes_; }
  bool is_better(const planner::Simulation& a, const planner::Simulation& b) const;
  std::int64_t bytes_of(ValueId value) const { return problem_.trace.values[value].bytes; }
  bool is_there_at_peak(ValueId value) const;

  // Each returns true if the plan is better now.
  bool lower_peak();
  bool retain_more();
  bool exchange();
  bool exchange_neighbours();
  bool change_pairs();
  bool try_changes(const std::vector<Change>& changes);
  bool try_if_promising(const std::vector<Change>& changes);
  bool make_room_for(const Scored& gain, const std::vector<Scored>& losses);

  double estimate(const std::vector<Change>& changes);
  double copy_seconds(ValueId value, planner::Choice choice) const;
  std::vector<Change> other_choices(ValueId value) const;
  std::vector<Scored> gains();   // faster, larger; best first
  std::vector<Scored> losses();  // smaller, slower; best first
  void apply(const std::vector<Change>& changes, std::vector<Change>* undo);

  const Problem& problem_;
  const RetainMenu& menu_;
  Trials& trials_;
  const Eviction eviction_;
  const std::int64_t peak_bytes_;
  Plan plan_;
  Reruns reruns_;
  planner::Simulation best_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_LOCAL_SEARCH_H_
