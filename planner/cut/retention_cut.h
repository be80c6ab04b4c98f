// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which values to retain and which operators to run again, if each byte retained has a price: a
// minimum cut.
//
// Note [Recomputation as a cut]: a value is *demanded* if backward reads it, or if an operator that
// runs again reads it and the program does not hold it. A demanded value whose producer does not
// run again is retained. Then
//
//   cost = sum of the rerun prices of operators that run again
//        + sum of the retain prices of demanded values whose producers do not run again
//
// has terms of one variable, terms of the form "demanded and not rerun", and implications. It is
// submodular, and its minimum is an s-t cut (Picard, "Maximal closure of a graph", 1976): source ->
// demanded by backward (infinite), rerun -> demanded input (infinite), demanded -> rerun of its
// producer (the retain price), rerun -> sink (the rerun price; infinite if it must not run again).
#ifndef REPRISE_PLANNER_CUT_RETENTION_CUT_H_
#define REPRISE_PLANNER_CUT_RETENTION_CUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/planner/cut/max_flow.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// Free are values that exist before the step and those that the program holds to its end. One that
// the program releases in backward is demanded by operators of backward after that, and by all that
// run again: when they do is not known here.

// None is negative or not a number.
struct Prices {
  // In seconds. By value: to retain it, in the cheapest of the ways that it can be; infinity if it
  // cannot be retained (its memory is overwritten). Of values that are free, ignored.
  std::vector<double> retain;
  // By operator: to run it again. Of operators of backward, or that cannot, ignored.
  std::vector<double> rerun;
};

struct Cut {
  std::vector<bool> is_retained;  // by value
  std::vector<bool> is_rerun;     // by operator
  double cost = 0;

  // No choice costs less. Below `cost` by rounding alone: by less than 2^-58 of the sum of all
  // finite prices for each of the prices, and the rounding of sums of doubles.
  double least_cost = 0;
};

class RetentionCut {
 public:
  // Considers what operators of backward from `first` on read; none: all of backward. `trace` and
  // `facts` must outlive it.
  RetentionCut(const Trace& trace, const TraceFacts& facts, OperatorId first = kNone);

  // Returns a cheapest choice; of several, the one that runs the fewest operators again. Infinite
  // cost if there is none. Time: about linear in practice; the network is built once.
  Cut solve(const Prices& prices) const;

 private:
  class Builder;

  // What the capacity of an edge is the price of; nothing: not limited.
  struct Priced {
    ValueId retain = kNone;
    OperatorId rerun = kNone;
  };
  struct Node {
    OperatorId op = kNone;
    std::int32_t node = kNone;
  };

  bool is_free(ValueId value) const;
  static double price(const Priced& priced, const Prices& prices);
  Cut choice(const MinCut& min_cut, const Prices& prices) const;

  const Trace& trace_;
  const TraceFacts& facts_;
  std::vector<bool> is_demanded_;  // by value: by backward itself
  std::vector<Priced> priced_;     // by edge of the network
  std::vector<Node> operators_;    // those that may run again, descending
  std::optional<FlowNetwork> network_;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CUT_RETENTION_CUT_H_
