// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a plan makes of each value and operator of a step.
#ifndef REPRISE_PLANNER_EXPLANATION_OUTCOME_H_
#define REPRISE_PLANNER_EXPLANATION_OUTCOME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

enum class Fate : std::uint8_t {
  kBeforeStep,  // exists before the step
  kNotNeeded,   // no operator of backward needs it
  kHeld,        // the program holds it as long as it is read
  kRetained,
  kStored,
  kRecomputed,
};

class REPRISE_API Outcome {
 public:
  // `simulator` must outlive the outcome; `plan` must be valid.
  Outcome(const planner::Simulator& simulator, const planner::Plan& plan);

  const planner::Trace& trace() const { return simulator_->trace(); }
  const planner::Simulator& simulator() const { return *simulator_; }
  const planner::Plan& plan() const { return plan_; }
  const std::vector<planner::ScheduledRun>& schedule() const { return schedule_; }

  Fate fate(planner::ValueId value) const { return fates_[value]; }
  std::int64_t bytes_of(Fate fate) const;  // of all values of forward with this fate

  planner::OperatorId producer(planner::ValueId value) const { return producers_[value]; }

  // Positions in the schedule.
  std::int32_t own_run(planner::OperatorId op) const { return own_runs_[op]; }
  std::int32_t released_in(planner::ValueId value) const;
  const std::vector<std::int32_t>& reads(planner::ValueId value) const { return reads_[value]; }

  // How often an operator runs again.
  int reruns(planner::OperatorId op) const { return reruns_[op]; }

  // The operators that would run, and how long, to make a value again, given what the program holds
  // and the plan retains when it is first read after the program has released it.
  struct Recomputation {
    int operators = 0;
    double seconds = 0;  // infinity: it cannot be recomputed
  };
  Recomputation recomputation(planner::ValueId value) const;

 private:
  void find_runs();
  Fate find_fate(planner::ValueId value) const;
  bool is_there(planner::ValueId value, planner::OperatorId at) const;

  const planner::Simulator* simulator_;
  planner::Plan plan_;
  std::vector<planner::ScheduledRun> schedule_;
  std::vector<planner::OperatorId> producers_;    // by value
  std::vector<std::int32_t> own_runs_;            // by operator
  std::vector<int> reruns_;                       // by operator
  std::vector<std::vector<std::int32_t>> reads_;  // by value
  std::vector<Fate> fates_;                       // by value
};

// "#12 aten::mul".
REPRISE_API std::string operator_label(const planner::Trace& trace, planner::OperatorId op);
// Its name, or of what it is the result.
REPRISE_API std::string value_label(const Outcome& outcome, planner::ValueId value);
// "retained", "recomputed", ...
REPRISE_API std::string fate_name(Fate fate);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_EXPLANATION_OUTCOME_H_
