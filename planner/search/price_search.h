// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans that are cheapest at prices of memory.
#ifndef REPRISE_PLANNER_SEARCH_PRICE_SEARCH_H_
#define REPRISE_PLANNER_SEARCH_PRICE_SEARCH_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/cut/retention_cut.h"
#include "reprise/planner/search/archive.h"
#include "reprise/planner/search/problem.h"
#include "reprise/planner/search/retain_menu.h"

namespace reprise::planner_internal {

class PriceSearch {
 public:
  PriceSearch(const Problem& problem, const RetainMenu& menu, Trials& trials);

  // Tries `count` prices per byte, from one at which nothing is worth recomputing to one at which
  // all is: as if the peak were where backward begins.
  void sweep(int count);

  // Note [Prices that follow the memory]: backward is divided into stretches. A byte has a price in
  // each. To retain a value costs the prices of the stretches from the first to its last use; to
  // make it again costs those from then on. A step is simulated; prices rise where its memory is
  // above the budget, and fall where it is below; and so on. The times at which values are made
  // again are those of the last simulation.
  //
  // Tries plans at `rounds` such prices.
  void follow_memory(std::int64_t peak_bytes, int rounds);

 private:
  struct Interval {
    int first = 0;
    int last = 0;
  };
  struct Stretches;  // the prices of one call of follow_memory(), and when values are there

  int stretch_of(OperatorId op) const;
  Plan cheapest_plan(const Stretches& stretches, double link_price) const;
  void set_intervals(Stretches& stretches, const Plan& plan) const;
  double starting_price(std::int64_t peak_bytes) const;

  const Problem& problem_;
  const RetainMenu& menu_;
  Trials& trials_;
  RetentionCut cut_;
  int stretches_;
  // Of the sweep: the price of each plan that fell below the peaks of those before it.
  struct Step {
    std::int64_t peak_bytes;
    double price;
  };
  std::vector<Step> steps_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_PRICE_SEARCH_H_
