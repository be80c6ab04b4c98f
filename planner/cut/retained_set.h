// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which values a region retains within a number of bytes.
//
// Note [Retained within bytes]: a region's replay makes at once all that backward needs, so the sum
// of the retained bytes is limited, and no peak. Minimum cuts at prices per byte yield the sets on
// the lower convex hull of seconds over bytes (Everett, "Generalized Lagrange multiplier method",
// 1963): each price is the slope between the best known sets below and above the limit, until no
// set lies below their line. Values with equal bytes get slightly different prices, as one price
// would take all of them or none. Exchanges of one value for another improve the set below the
// limit, and a branch and bound, in which the last price bounds each branch, looks for a better
// one.
#ifndef REPRISE_PLANNER_CUT_RETAINED_SET_H_
#define REPRISE_PLANNER_CUT_RETAINED_SET_H_

#include <cstdint>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/cut/retention_cut.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

struct RetainedSet {
  std::vector<bool> is_retained;  // by value: those that backward, or what runs again, reads
  std::int64_t bytes = 0;         // of these
  double seconds = 0;             // of the operators that run again
};

class RetainedSets {
 public:
  // may_retain: by value; those that may not are made again. `trace`, whose operators of forward
  // can all run again, must outlive this.
  REPRISE_API RetainedSets(const planner::Trace& trace, std::vector<bool> may_retain);

  // Returns the set without any value.
  RetainedSet none() const { return complete(std::vector<bool>(may_retain_.size())); }
  // Returns a set that no other one spares more seconds than, of the fewest bytes.
  const RetainedSet& all() const { return all_; }
  // Returns the set with the fewest seconds among those of at most `bytes`; the best one found if
  // there are many values. Deterministic. Time: at most 2,000 minimum cuts, of traces of more than
  // 100 operators in proportion fewer.
  REPRISE_API RetainedSet within(std::int64_t bytes) const;

 private:
  class Search;

  // Returns the set that retains of these values those that are read.
  REPRISE_API RetainedSet complete(std::vector<bool> retained) const;
  Prices prices_at(double seconds_per_byte) const;
  RetainedSet cheapest_at(double seconds_per_byte) const;
  double weight_of(planner::ValueId value) const;
  double weight_of(const RetainedSet& set) const;
  RetainedSet improved(RetainedSet set, std::int64_t bytes) const;

  const planner::Trace& trace_;
  const TraceFacts facts_;
  const RetentionCut cut_;
  const std::vector<bool> may_retain_;
  RetainedSet all_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CUT_RETAINED_SET_H_
