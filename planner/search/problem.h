// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What the methods of the search know about a trace, whatever the plan.
#ifndef REPRISE_PLANNER_SEARCH_PROBLEM_H_
#define REPRISE_PLANNER_SEARCH_PROBLEM_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

struct Problem {
  explicit Problem(const planner::Simulator& simulator);

  // True if the program no longer holds `value` when `op` of backward runs, so that a plan must
  // have it there.
  bool is_planned_at(ValueId value, OperatorId op) const;

  bool is_of_forward(ValueId value) const {
    return facts.producer[value] != kNone && facts.producer[value] < trace.backward_begin;
  }

  // Retains in `plan` what must be, and nothing whose memory is overwritten.
  void make_legal(Plan& plan) const;

  // Returns the plan that retains as little as a plan can.
  Plan smallest_plan() const;
  // Returns the plan that also retains each value of forward that backward reads.
  Plan largest_plan() const;

  const planner::Simulator& simulator;
  const Trace& trace;
  TraceFacts facts;

  // By value. The operators of backward that read it and find it no longer held; none if there are
  // none.
  std::vector<OperatorId> first_use;
  std::vector<OperatorId> last_use;
  // An estimate of when it is first needed in backward: its first use, or, of a value that only
  // operators of forward read, the first need of what they make.
  std::vector<OperatorId> first_need;

  std::vector<std::vector<OperatorId>> readers;  // by value: operators of forward
  std::vector<bool> must_retain;                 // by value, at no cost if nothing needs it
  std::vector<bool> is_candidate;                // by value: to retain it or not makes a difference
  std::vector<ValueId> candidates;
  std::int64_t fixed_bytes = 0;  // of what is there before the step, to its end

 private:
  void find_uses();
  void find_candidates();
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SEARCH_PROBLEM_H_
