// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The ways to have a value in backward without making it again: whole in memory, or in one of the
// stores.
#ifndef REPRISE_PLANNER_SEARCH_RETAIN_MENU_H_
#define REPRISE_PLANNER_SEARCH_RETAIN_MENU_H_

#include <vector>

#include "reprise/planner/cut/retention_cut.h"
#include "reprise/planner/search/problem.h"
#include "reprise/planner/search/reruns.h"

namespace reprise::planner_internal {

// What the bytes of a value cost, in seconds, before its first use in backward and from then on.
struct MemoryPrice {
  double away = 0;
  double back = 0;
};

struct PricedWay {
  int store = kNone;  // none: whole in memory
  double price = 0;
};

class RetainMenu {
 public:
  explicit RetainMenu(const Problem& problem) : problem_(problem) {}

  // Returns the cheapest way. The second of a copy beside the computation costs `link_price`.
  PricedWay cheapest(ValueId value, MemoryPrice price, double link_price) const;

  bool can_put(ValueId value, int store) const;

  // Returns the seconds that copying `value` takes from the computation, if a second of a copy
  // beside it costs `link_price`.
  double copy_seconds(ValueId value, int store, double link_price) const;

  // Returns the plan that `cut` stands for, with a store for each value that `ways` has one for.
  Plan plan_of(const Cut& cut, const std::vector<PricedWay>& ways) const;

 private:
  void respect_capacities(Plan& plan) const;

  const Problem& problem_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_RETAIN_MENU_H_
