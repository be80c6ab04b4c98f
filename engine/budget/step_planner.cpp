// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/step_planner.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>

namespace reprise::engine_internal {

int simulations_for(const planner::Trace& trace, double most_seconds) {
  constexpr double kStepsOfPlanning = 2;
  constexpr double kSecondsPerOperator = 60e-9;  // of a simulation
  constexpr int kLeast = 200;
  const planner::PlannerOptions defaults;
  const double seconds_of_one =
      kSecondsPerOperator * static_cast<double>(trace.operators.size() + 1);
  const double seconds = std::clamp(most_seconds, 0.0, kStepsOfPlanning * trace.seconds());
  return std::clamp(
      static_cast<int>(std::min<double>(seconds / seconds_of_one, defaults.max_simulations)),
      kLeast, defaults.max_simulations);
}

std::optional<planner::Solution> smallest_peak_of(planner::Planner& planner) {
  try {
    return planner.smallest_peak();
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

planner::Trace without_evictions(planner::Trace trace) {
  for (planner::Value& value : trace.values) {
    value.is_evicted = false;
  }
  return trace;
}

void mark_evicted(planner::Trace& trace, const std::vector<bool>& is_gone) {
  const std::vector<planner::OperatorId> producers = trace.producers();
  for (planner::ValueId value = 0; value < static_cast<planner::ValueId>(is_gone.size()); ++value) {
    const planner::OperatorId producer = producers[value];
    trace.values[value].is_evicted = is_gone[value] && !trace.is_held(value) &&
                                     producer != planner::kNone &&
                                     trace.operators[producer].can_recompute;
  }
}

namespace {

// Returns the trace of a step in which the program holds these values until backward has read them.
planner::Trace with_held(planner::Trace trace, const std::vector<bool>& kept) {
  std::vector<bool> may_hold = kept;
  for (const planner::Value& value : trace.values) {
    if (value.overwrites != planner::kNone) {
      may_hold[value.overwrites] = false;
    }
  }
  std::vector<planner::OperatorId> last_use(trace.values.size(), trace.backward_begin);
  for (auto op = trace.backward_begin;
       op < static_cast<planner::OperatorId>(trace.operators.size()); ++op) {
    for (const planner::ValueId value : trace.operators[op].reads) {
      last_use[value] = op;
    }
  }
  for (std::size_t value = 0; value < kept.size(); ++value) {
    if (may_hold[value] && !trace.is_held(static_cast<planner::ValueId>(value))) {
      trace.values[value].released = last_use[value];
    }
  }
  return trace;
}

}  // namespace

StepPlanner::StepPlanner(std::shared_ptr<const planner::Trace> trace,
                         std::vector<planner::StoreOption> stores)
    : trace_(std::move(trace)), stores_(std::move(stores)), simulator_(*trace_, stores_) {}

void StepPlanner::prepare(const std::vector<bool>& kept, int simulations) {
  if (planner_ == nullptr || kept != kept_ || simulations > simulations_) {
    simulations_ = std::max(simulations_, simulations);
    renew(kept);
  }
}

void StepPlanner::renew(std::vector<bool> kept) {
  kept_ = std::move(kept);
  planner_.reset();
  planned_trace_ =
      kept_.empty() ? trace_ : std::make_shared<const planner::Trace>(with_held(*trace_, kept_));
  planner_ = std::make_unique<planner::Planner>(
      *planned_trace_, planner::PlannerOptions{.stores = stores_, .max_simulations = simulations_});
}

// Without a plan within the budget, each step takes longer than to look for one thoroughly, once;
// and the guard has the least to do with the smallest peak.
std::optional<FoundPlan> StepPlanner::find(const PlanRequest& request) {
  prepare(request.kept, simulations_for(*trace_, request.seconds));
  std::optional<planner::Solution> solution = find_within(request);
  if (!solution && !kept_.empty()) {
    renew({});
    solution = find_within(request);
  }
  const planner::PlannerOptions defaults;
  if (!solution && simulations_ < defaults.max_simulations) {
    simulations_ = defaults.max_simulations;
    renew({});
    solution = find_within(request);
  }
  const bool is_smallest = !solution;
  if (is_smallest) {
    solution = smallest_peak_of(*planner_);
  }
  planner_->release_memory();
  if (!solution) {
    return std::nullopt;
  }
  for (std::size_t value = 0; value < kept_.size(); ++value) {
    if (planned_trace_->values[value].released != trace_->values[value].released) {
      solution->plan.choices[value] = planner::Choice::retain();
    }
  }
  std::optional<FoundPlan> found = simulate(solution->plan, solution->bound_seconds);
  if (found) {
    found->kept = kept_;
    found->is_smallest = is_smallest;
    found->is_shortened = simulations_ < simulations_for(*trace_);
  }
  return found;
}

std::optional<planner::Solution> StepPlanner::find_within(const PlanRequest& request) {
  if (request.max_overhead) {
    return planner_->plan_within_overhead(*request.max_overhead);
  }
  return request.alike > 1 ? find_in_flight(request)
                           : planner_->plan(request.room + trace_->bytes_before_step());
}

// Halves the range of budgets for one step: the larger that is, the more do the others hold.
std::optional<planner::Solution> StepPlanner::find_in_flight(const PlanRequest& request) {
  constexpr int kHalvings = 6;
  const std::int64_t before = trace_->bytes_before_step();
  std::int64_t fits = request.room / request.alike;
  std::int64_t exceeds = request.room;
  std::optional<planner::Solution> best;
  for (int i = 0; i <= kHalvings; ++i) {
    const std::int64_t growth = i == 0 ? fits : fits + (exceeds - fits) / 2;
    auto found = planner_->plan(growth + before);
    const bool is_within =
        !found || found->simulation.peak_bytes - before +
                          (request.alike - 1) *
                              (held_by(found->plan, planner_->simulator()) + request.held_error) <=
                      request.room;
    (is_within ? fits : exceeds) = growth;
    if (found && is_within && (!best || found->simulation.seconds < best->simulation.seconds)) {
      best = std::move(found);
    }
  }
  return best;
}

std::int64_t StepPlanner::held_by(const planner::Plan& plan,
                                  const planner::Simulator& simulator) const {
  const std::vector<planner::ScheduledRun> schedule = simulator.schedule(plan);
  const auto last = std::find_if(schedule.begin(), schedule.end(), [this](const auto& run) {
    return run.op == trace_->backward_begin - 1;
  });
  return last == schedule.end()
             ? 0
             : last->live_bytes - last->workspace_bytes - trace_->bytes_before_step();
}

FoundPlan StepPlanner::describe(const planner::Plan& plan,
                                const planner::Simulation& simulation) const {
  FoundPlan found{.plan = simulator().reduced(plan), .simulation = simulation};
  found.held_bytes = held_by(found.plan, simulator_);
  found.fetches = simulator().fetches(found.plan);
  return found;
}

std::optional<FoundPlan> StepPlanner::simulate(const planner::Plan& plan,
                                               double bound_seconds) const {
  const auto stores = static_cast<std::ptrdiff_t>(stores_.size());
  const bool is_known = plan.choices.size() == trace_->values.size() &&
                        std::all_of(plan.choices.begin(), plan.choices.end(),
                                    [&](planner::Choice choice) { return choice.store < stores; });
  if (!is_known) {
    return std::nullopt;
  }
  const planner::Simulation simulation = simulator().run(plan);
  if (!simulation.is_valid) {
    return std::nullopt;
  }
  FoundPlan found = describe(plan, simulation);
  found.bound_seconds = bound_seconds;
  return found;
}

std::optional<FoundPlan> StepPlanner::plain() const {
  return simulate(planner::retain_all(*trace_), trace_->seconds());
}

std::optional<double> StepPlanner::seconds_within(std::int64_t room) {
  prepare(kept_, simulations_for(*trace_));
  const std::optional<planner::Solution> solution =
      planner_->plan(room + trace_->bytes_before_step());
  planner_->release_memory();
  return solution ? std::optional(solution->simulation.seconds) : std::nullopt;
}

}  // namespace reprise::engine_internal
