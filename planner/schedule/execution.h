// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The runs of operators that a plan makes of a trace, and how long each copy of a value is in
// memory.
#ifndef REPRISE_PLANNER_SCHEDULE_EXECUTION_H_
#define REPRISE_PLANNER_SCHEDULE_EXECUTION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

using planner::kNone;
using planner::OperatorId;
using planner::Plan;
using planner::Trace;
using planner::ValueId;

using RunId = std::int32_t;
using CopyId = std::int32_t;

struct Run {
  OperatorId op = kNone;
  OperatorId requested_by = kNone;  // none: a run of the program's own
  CopyId first_copy = 0;            // of its results
  CopyId end_copy = 0;
};

// A value in memory, from the run that makes it to the last one that needs it, both included.
struct Copy {
  ValueId value = kNone;
  RunId made = kNone;  // none: before the step
  RunId last = kNone;
  RunId released = kNone;  // by the program; none: it is recomputed
  RunId first_use_in_backward = kNone;
  CopyId overwrites = kNone;  // whose memory it takes over, if that has no use later
};

// What does not change from plan to plan.
struct TraceFacts {
  explicit TraceFacts(const Trace& trace);

  std::span<const ValueId> reads(OperatorId op) const {
    return {all_reads.data() + first_read[op], all_reads.data() + first_read[op + 1]};
  }
  std::span<const ValueId> results(OperatorId op) const {
    return {all_results.data() + first_result[op], all_results.data() + first_result[op + 1]};
  }

  std::vector<OperatorId> producer;  // by value
  std::vector<ValueId> overwriter;   // by value: what takes over its memory
  std::vector<ValueId> overwrites;   // by value
  std::vector<OperatorId>
      held_until;  // by value: by the program; the greatest number if to the end

  // Of all operators, one after the other: a step is simulated many times.
  std::vector<ValueId> all_reads;
  std::vector<ValueId> all_results;
  std::vector<std::size_t> first_read;  // by operator, and the end
  std::vector<std::size_t> first_result;
};

class Execution {
 public:
  Execution(const Trace& trace, const TraceFacts& facts, const Plan& plan);

  // False if a value is needed that cannot be recomputed; then the rest says nothing.
  bool is_valid() const { return is_valid_; }

  const std::vector<Run>& runs() const { return runs_; }
  const std::vector<Copy>& copies() const { return copies_; }  // by run

 private:
  struct State {
    CopyId copy = kNone;  // the latest
    OperatorId held_until = kNone;
    std::int32_t made_in = kNone;  // the request that recomputed it last
    std::uint8_t times_recomputed = 0;
    std::uint8_t retained_from = 0;
    bool is_retained = false;  // the copy stays until its last use
  };

  void run(OperatorId op, OperatorId requested_by);
  void make(ValueId value, RunId run, bool is_recomputed);
  void extend_to_release(Copy& copy) const;
  void request(ValueId value, OperatorId requested_by);
  void collect(ValueId value);
  bool is_there(ValueId value) const {
    const State& state = states_[value];
    return state.held_until >= now_ || state.is_retained || state.made_in == request_;
  }
  void use(ValueId value);
  void add_values(const Plan& plan);

  const Trace& trace_;
  const TraceFacts& facts_;
  std::vector<Run> runs_;
  std::vector<Copy> copies_;
  std::vector<RunId> own_runs_;             // of the program, by operator
  std::vector<State> states_;               // by value
  std::vector<std::int32_t> collected_in_;  // by operator: the request
  std::vector<OperatorId> collected_;
  std::vector<ValueId> pending_;
  std::int32_t request_ = 0;
  OperatorId now_ = 0;  // the operator of the program that runs, or that requests
  bool is_valid_ = true;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_SCHEDULE_EXECUTION_H_
