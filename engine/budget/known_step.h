// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A step that has been recorded, and the plan for its next run.
#ifndef REPRISE_ENGINE_BUDGET_KNOWN_STEP_H_
#define REPRISE_ENGINE_BUDGET_KNOWN_STEP_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/budget/background_planning.h"
#include "reprise/engine/budget/planning_share.h"
#include "reprise/engine/budget/step_plan.h"
#include "reprise/engine/budget/step_planner.h"
#include "reprise/engine/budget/step_script.h"
#include "reprise/engine/budget/steps_in_flight.h"
#include "reprise/engine/budget/store_rates.h"
#include "reprise/planner/format/saved_step.h"
#include "reprise/planner/trace.h"

namespace reprise::engine_internal {

// Of a recorded step's backward, that which is not observed is an estimate.
enum class RecordedBackward {
  kWhole,
  kUnfinished,  // it has not come to its end
  kUnobserved,  // it runs on another thread than forward, or not through the default engine
};

struct RecordedStep {
  StepScript script;
  planner::Trace trace;
  RecordedBackward backward;

  // A later recording would tell no more of backward than this one.
  bool is_final() const { return backward != RecordedBackward::kUnfinished; }
};

// What was measured in a step that followed a plan from its first to its last operator.
struct MeasuredStep {
  std::int64_t bytes_before;  // without those of steps in flight
  InFlight in_flight;
  std::optional<std::int64_t> held_bytes;  // when forward had ended, if nothing was evicted
  // When backward began: by how much more was in use than when the step began, without what steps
  // in flight held.
  std::optional<std::int64_t> rise_bytes;
  std::int64_t growth;            // beyond the bytes before the step
  bool is_whole = true;           // that is the plan's: it was followed then, and nothing is spare
  std::int64_t shortage_bytes;    // the most that the guard had to find at once
  std::int64_t limit_growth;      // the limit, beyond the bytes before the step
  std::optional<double> seconds;  // of the step, unless it was recorded
};

// Not thread-safe.
class KnownStep {
 public:
  // rates: of the stores that plans may use.
  KnownStep(RecordedStep recorded, const StoreRates& rates);
  // A step of an earlier process, with the script of its operators in this one.
  KnownStep(planner_internal::SavedStep saved, StepScript script, const StoreRates& rates);

  // Returns what a later process needs, but for the script. Not while a plan is made.
  planner_internal::SavedStep saved() const;

  const std::shared_ptr<const StepScript>& script() const { return script_; }
  // Returns the last plan, or null.
  std::shared_ptr<const StepPlan> plan() const { return plan_; }
  // Returns the trace of the step without recomputation.
  const planner::Trace& trace() const { return *trace_; }
  int recordings() const { return recordings_; }  // that are final
  bool is_backward_estimated() const { return backward_ != RecordedBackward::kWhole; }
  // Returns whether the plan that it is to follow is still being made.
  bool has_stopgap() const { return plan_ != nullptr && plan_->is_stopgap; }
  // Returns the last plan, for the trace; null if none is valid.
  const planner::Plan* plan_for_trace() const { return plan_ == nullptr ? nullptr : &found_.plan; }
  // Returns those that plans may use.
  const std::vector<planner::StoreOption>& stores() const { return stores_; }

  // For a report.
  struct Summary {
    std::int64_t retained = 0;  // values, in forward
    std::int64_t retained_bytes = 0;
    std::int64_t stored = 0;  // of these, in stores
    std::int64_t stored_bytes = 0;
    std::int64_t repeated = 0;  // runs of operators
    std::string peak_operator;
    bool is_backward_estimated = false;
    std::int64_t more_bytes = 0;              // a tenth of those for activations
    std::optional<double> seconds_with_more;  // of a step with them
  };
  // Of the last plan. Plans once more. Not while a plan is made.
  Summary summarize(const BudgetAim& aim);

  // See MemoryBudget::explain(). Not while a plan is made.
  std::string explain(const std::string& op);

  // The same step has been recorded again.
  void add_recording(RecordedStep recorded, const StoreRates& rates);

  // A step that follows this plan has exceeded the budget. If the plan uses stores, whose threads
  // may take longer than measured, later plans use none.
  void note_failure(const StepPlan& plan);

  // Returns the plan for a step that starts with `bytes_before` in use: within the aim, or, if none
  // is found, the one with the smallest peak. Null if no plan is valid. kept: by number, the values
  // that are to stay for longer steps that begin alike, see Note [Shared beginnings]. background:
  // null to plan at once, if a plan is needed. share: what steps have taken for plans so far.
  // is_under_way: the step has begun as another one. It follows the plan that there is already,
  // which has had its share of the beginning.
  std::shared_ptr<const StepPlan> plan_for(const BudgetAim& aim, std::int64_t bytes_before,
                                           const std::vector<bool>& kept, bool is_under_way,
                                           const PlanningShare& share,
                                           BackgroundPlanning* background);
  // Returns whether the plan that was made in the background was asked for by this step. Follows it
  // from now on.
  bool adopt(const BackgroundPlanning::Outcome& outcome);

  // Later plans are for as many. See RecentlyInFlight.
  void note_in_flight(const InFlight& seen, std::int64_t base_bytes) {
    in_flight_.note(seen, base_bytes);
  }

  // Later plans leave as much more room as this step needed beyond its prediction, and predict as
  // much more time.
  void calibrate(const StepPlan& plan, const MeasuredStep& measured);

 private:
  // Measured less simulated.
  struct Corrections {
    std::int64_t excess_bytes = 0;       // of peaks
    std::int64_t planned_for_bytes = 0;  // of these, when the plan was asked for
    // With less there has been a shortage.
    std::int64_t least_excess_bytes = std::numeric_limits<std::int64_t>::min() / 2;
    std::int64_t held_error = 0;
    std::int64_t own_rise = std::numeric_limits<std::int64_t>::max();  // the least measured
    double excess_seconds = 0;
    int timed_steps = 0;
  };

  // Returns the last plan for a step that counts on so many bytes before it.
  std::shared_ptr<StepPlan> prepared(std::int64_t base, std::int64_t bytes_before) const;
  void replace(RecordedStep recorded, const StoreRates& rates);
  void set_stores(const StoreRates& rates);
  // Of the plan, for one step, or for all that are in flight.
  std::int64_t planned_growth() const {
    return found_.simulation.peak_bytes - trace_->bytes_before_step();
  }
  std::int64_t growth_in_flight() const {
    return planned_growth() +
           (in_flight_.most().alike - 1) * (found_.held_bytes + corrections_.held_error);
  }
  std::int64_t rise_by_others(const MeasuredStep& measured);
  void make_planner();
  // usual_room: what a step has that begins with the most bytes in use of recent ones.
  // seconds_left: for planning.
  bool needs_plan(std::int64_t room, std::int64_t usual_room, const BudgetAim& aim,
                  const std::vector<bool>& kept, double seconds_left) const;
  // Returns whether a plan is to replace the last one, which fits.
  bool is_worth_replacing(std::int64_t room, std::int64_t usual_room, const BudgetAim& aim) const;
  bool lacks(const std::vector<bool>& kept) const;
  PlanRequest request(std::int64_t room, const BudgetAim& aim, const std::vector<bool>& kept) const;
  std::vector<bool> in_trace(const std::vector<bool>& kept) const;
  std::int64_t room_to_plan(std::int64_t room, const BudgetAim& aim) const;
  // Returns the seconds that it takes, 0 for a plan in the background.
  double make_plan(PlanRequest request, BackgroundPlanning* background);
  void set_plan(std::optional<FoundPlan> found);
  // The last plan is that of an earlier recording, and is followed until there is another one.
  void carry_over(const planner::Plan& plan, const StepPlan& earlier);
  void adopt(const planner_internal::SavedPlan& saved);
  planner::Choice choice_of(planner::ValueId value) const;
  void add_stores(StepPlan& plan) const;
  std::vector<PlannedFetch> fetches() const;
  std::vector<PlannedRelease> releases(const std::vector<planner::Choice>& choices) const;

  std::shared_ptr<const StepScript> script_;
  std::shared_ptr<const planner::Trace> trace_;
  RecordedBackward backward_;
  int recordings_ = 0;
  std::vector<planner::StoreOption> stores_;
  std::vector<PlannedStore> planned_stores_;  // the same ones
  bool uses_stores_ = true;
  std::shared_ptr<StepPlanner> planner_;
  std::shared_ptr<StepPlanner> asked_;  // the one that plans in the background, or null
  std::int64_t plain_growth_ = 0;       // of the step without recomputation
  std::shared_ptr<StepPlan> plan_;
  FoundPlan found_;         // its source
  std::vector<bool> kept_;  // by value of the trace, that it was asked to retain
  std::int64_t room_ =
      -1;  // for growth, that it was made for; negative: none was, of this recording
  int visits_ = 0;
  int plans_made_anew_ = 0;  // since the last recording
  RecentlyInFlight in_flight_;
  Corrections corrections_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_BUDGET_KNOWN_STEP_H_
