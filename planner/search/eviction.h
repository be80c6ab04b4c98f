// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Lowers a plan's peak by what is cheapest there.
#ifndef REPRISE_PLANNER_SEARCH_EVICTION_H_
#define REPRISE_PLANNER_SEARCH_EVICTION_H_

#include <cstdint>
#include <set>
#include <string_view>
#include <tuple>
#include <vector>

#include "reprise/planner/search/archive.h"
#include "reprise/planner/search/problem.h"
#include "reprise/planner/search/reruns.h"
#include "reprise/planner/search/retain_menu.h"

namespace reprise::planner_internal {

// A choice for a value in memory at the peak, with which it no longer is.
struct Relief {
  ValueId value = kNone;
  planner::Choice choice;
  double seconds = 0;  // that it adds; an estimate
  double score = 0;    // seconds per byte
};

class Eviction {
 public:
  Eviction(const Problem& problem, const RetainMenu& menu, Trials& trials)
      : problem_(problem), menu_(menu), trials_(trials) {}

  // Returns what can be done about the peak of `plan`, lowest score first. `reruns` are those of
  // the plan.
  std::vector<Relief> reliefs(const Plan& plan, const planner::Simulation& simulation,
                              Reruns& reruns) const;

  // Evicts at the peak until it is at most `peak_bytes`, or nothing can be evicted, or the trials
  // are over: between two simulations about `batch_bytes`, but one value at least. What raises the
  // peak elsewhere is left as it was, unless it may rise on the way. Returns the simulation of the
  // plan.
  planner::Simulation evict(Plan& plan, std::int64_t peak_bytes, std::int64_t batch_bytes,
                            bool may_rise, std::string_view method) const;

 private:
  // What has raised the peak, by key().
  using Failures = std::set<std::tuple<ValueId, std::uint8_t, std::int8_t>>;
  static Failures::key_type key(const Relief& relief) {
    return {relief.value, relief.choice.retained_from, relief.choice.store};
  }

  std::vector<Relief> choose(const std::vector<Relief>& reliefs,
                             const planner::Simulation& simulation, const Failures& failures,
                             std::int64_t batch_bytes) const;
  void add_reliefs(ValueId value, const Plan& plan, const planner::Simulation& simulation,
                   Reruns& reruns, std::vector<Relief>& reliefs) const;

  const Problem& problem_;
  const RetainMenu& menu_;
  Trials& trials_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_EVICTION_H_
