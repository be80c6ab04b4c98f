// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A plan as a step carries it out.
#ifndef REPRISE_ENGINE_BUDGET_STEP_PLAN_H_
#define REPRISE_ENGINE_BUDGET_STEP_PLAN_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "reprise/engine/budget/step_script.h"
#include "reprise/engine/budget/steps_in_flight.h"
#include "reprise/planner/plan.h"

namespace reprise::engine_internal {

// One of the stores that a plan may use.
struct PlannedStore {
  int number;
  double put_seconds_per_byte;
  bool is_overlapped;
  bool keeps_last;  // until it is given another tensor
};

// When backward reads value number `trigger` of the script for the time number `reads`, it starts
// to fetch another one.
struct PlannedFetch {
  std::uint32_t trigger;
  int reads;
  std::uint32_t number;

  std::pair<std::uint32_t, int> key() const { return {trigger, reads}; }
};

// Before call number `call` of the script, the value that a backward inside forward has read, and
// that the plan does not retain, is freed.
struct PlannedRelease {
  std::uint32_t call;
  std::uint32_t number;
};

// Does not change.
struct StepPlan {
  std::shared_ptr<const StepScript> script;
  std::vector<planner::Choice> choices;  // by value of the script
  std::vector<PlannedStore> stores;      // none if it uses none
  std::vector<PlannedFetch> fetches;     // by trigger and reads
  std::vector<PlannedRelease> releases;  // by call
  std::int64_t peak_growth;              // the predicted peak beyond the bytes before the step
  std::int64_t peak_error;               // in it: measured less simulated, in the last step
  InFlight in_flight;                    // that the plan is for
  std::int64_t base_rise = 0;  // of the bytes before the step, by steps that end until its backward
  double seconds;
  double plain_seconds;     // of the step without recomputation
  double bound_seconds;     // of any plan within the same peak
  bool is_stopgap = false;  // retains as a plain step does, until a plan has been made
  bool is_late = false;     // made when the step was under way: values may be gone that it retains
  bool is_new = false;      // made for the step that follows it, or since the step before
  double planning_seconds = 0;  // for which that step has waited
};

// One of the steps that a step may turn out to be.
struct PossibleStep {
  std::shared_ptr<const StepScript> script;
  std::shared_ptr<const StepPlan> plan;  // its last one; null: none has been made
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_STEP_PLAN_H_
