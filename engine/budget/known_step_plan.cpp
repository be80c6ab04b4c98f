// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plans of a step that is known.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/budget/known_step.h"

namespace reprise::engine_internal {

int simulations_for(const planner::Trace& trace) {
  constexpr double kStepsOfPlanning = 2;
  constexpr double kSecondsPerOperator = 60e-9;  // of a simulation
  constexpr int kLeast = 200;
  const planner::PlannerOptions defaults;
  const double seconds = kSecondsPerOperator * static_cast<double>(trace.operators.size() + 1);
  return std::clamp(static_cast<int>(std::min<double>(kStepsOfPlanning * trace.seconds() / seconds,
                                                      defaults.max_simulations)),
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

void KnownStep::make_planner(std::vector<planner::StoreOption> stores) {
  plan_.reset();
  room_ = -1;
  plans_made_anew_ = 0;
  simulations_ = simulations_for(*trace_);
  renew_planner(std::move(stores));
  plain_growth_ = planner_->simulator().run(planner::retain_all(*trace_)).peak_bytes -
                  trace_->bytes_before_step();
}

void KnownStep::renew_planner(std::vector<planner::StoreOption> stores) {
  planner_ = std::make_unique<planner::Planner>(
      *trace_,
      planner::PlannerOptions{.stores = std::move(stores), .max_simulations = simulations_});
}

std::optional<planner::Solution> KnownStep::find_plan(const BudgetAim& aim) {
  if (aim.max_overhead) {
    return planner_->plan_within_overhead(*aim.max_overhead);
  }
  return in_flight_.most().alike > 1 ? find_plan_in_flight()
                                     : planner_->plan(room_ + trace_->bytes_before_step());
}

// Halves the range of budgets for one step: the larger that is, the more do the others hold.
std::optional<planner::Solution> KnownStep::find_plan_in_flight() {
  constexpr int kHalvings = 6;
  const int alike = in_flight_.most().alike;
  std::int64_t fits = room_ / alike;
  std::int64_t exceeds = room_;
  std::optional<planner::Solution> best;
  for (int i = 0; i <= kHalvings; ++i) {
    const std::int64_t growth = i == 0 ? fits : fits + (exceeds - fits) / 2;
    auto found = planner_->plan(growth + trace_->bytes_before_step());
    const bool is_within = !found || found->simulation.peak_bytes - trace_->bytes_before_step() +
                                             (alike - 1) * (held_by(found->plan) + held_error_) <=
                                         room_;
    (is_within ? fits : exceeds) = growth;
    if (found && is_within && (!best || found->simulation.seconds < best->simulation.seconds)) {
      best = std::move(found);
    }
  }
  return best;
}

// Returns the bytes of the step in memory when backward begins.
std::int64_t KnownStep::held_by(const planner::Plan& plan) const {
  const std::vector<planner::ScheduledRun> schedule = planner_->simulator().schedule(plan);
  const auto last = std::find_if(schedule.begin(), schedule.end(), [this](const auto& run) {
    return run.op == trace_->backward_begin - 1;
  });
  return last == schedule.end()
             ? 0
             : last->live_bytes - last->workspace_bytes - trace_->bytes_before_step();
}

// Without a plan within the budget, each step takes longer than to look for one thoroughly, once;
// and the guard has the least to do with the smallest peak.
std::optional<planner::Solution> KnownStep::find_plan_or_smallest(const BudgetAim& aim) {
  std::optional<planner::Solution> solution = find_plan(aim);
  const planner::PlannerOptions defaults;
  if (!solution && simulations_ < defaults.max_simulations) {
    simulations_ = defaults.max_simulations;
    renew_planner(stores());
    solution = find_plan(aim);
  }
  is_smallest_ = !solution;
  return solution ? std::move(solution) : smallest_peak_of(*planner_);
}

std::shared_ptr<const StepPlan> KnownStep::plan_for(const BudgetAim& aim, std::int64_t bytes_before,
                                                    const std::vector<bool>& lost) {
  ++visits_;
  const InFlight& in_flight = in_flight_.most();
  const std::int64_t base =
      in_flight_.is_alone() ? bytes_before : std::max(bytes_before, in_flight_.highest_base());
  const std::int64_t room =
      std::max<std::int64_t>(0, aim.peak_bytes - base - excess_bytes_ - in_flight.other_bytes);
  const std::int64_t usual_room =
      aim.varies ? room : room - std::max<std::int64_t>(0, in_flight_.highest_base() - base);
  double planning_seconds = 0;
  if (needs_plan(room, usual_room, aim, lost)) {
    const auto start = std::chrono::steady_clock::now();
    plans_made_anew_ += room_ < 0 ? 0 : 1;
    if (room_ < 0 || counts_on(lost)) {
      mark_lost(lost);
    }
    room_ = room_to_plan(room, aim);
    make_plan(aim);
    planning_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (plan_ == nullptr) {
    return nullptr;
  }
  auto plan = std::make_shared<StepPlan>(*plan_);
  plan->in_flight = in_flight;
  plan->base_rise = base - bytes_before;
  plan->peak_growth =
      plan->base_rise + growth_in_flight() + in_flight.other_bytes + plan->peak_error;
  plan->planning_seconds = planning_seconds;
  for (double* const seconds : {&plan->seconds, &plan->plain_seconds, &plan->bound_seconds}) {
    *seconds += excess_seconds_;
  }
  return plan;
}

// A plan that is made anew takes about two steps: a few times, and then once in so many steps, it
// is worth that. Where limits vary, there are no more plans than room_to_plan() has rooms. Steps
// that begin with less in use than others, as before the first gradients, need no plan for more
// room.
bool KnownStep::needs_plan(std::int64_t room, std::int64_t usual_room, const BudgetAim& aim,
                           const std::vector<bool>& lost) const {
  constexpr int kMostPlans = 4;
  constexpr int kStepsPerPlan = 20;
  constexpr std::int64_t kPart = 64;  // of the budget, that is too little to be worth a plan
  if (room_ < 0) {
    return true;
  }
  if (!aim.varies && plans_made_anew_ >= kMostPlans + visits_ / kStepsPerPlan) {
    return false;
  }
  if (counts_on(lost)) {
    return true;
  }
  if (aim.max_overhead) {
    return false;
  }
  const bool is_plain = plan_ != nullptr && plan_->seconds <= plan_->plain_seconds;
  const bool is_for_more = plan_ != nullptr && plan_->in_flight.alike > in_flight_.most().alike;
  const bool has_more_room =
      !is_plain && (is_for_more || (aim.varies ? room_to_plan(room, aim) > room_
                                               : usual_room > room_ + aim.peak_bytes / kPart));
  const bool lacks_room = room < growth_in_flight() && !is_smallest_;
  return has_more_room || lacks_room;
}

// A limit that varies gets plans for 32nds of the plain step, so that small changes need no plan.
std::int64_t KnownStep::room_to_plan(std::int64_t room, const BudgetAim& aim) const {
  constexpr std::int64_t kParts = 32;
  if (!aim.varies || plain_growth_ < kParts) {
    return room;
  }
  return std::min(room - room % (plain_growth_ / kParts), plain_growth_);
}

// Returns whether the plan retains values that are lost.
bool KnownStep::counts_on(const std::vector<bool>& lost) const {
  for (std::uint32_t number = 0; number < lost.size(); ++number) {
    const planner::ValueId value = script_->values[number].id;
    if (lost[number] && value != planner::kNone && !trace_->is_held(value) &&
        reduced_.choices[value].is_retained()) {
      return true;
    }
  }
  return false;
}

void KnownStep::mark_lost(const std::vector<bool>& lost) {
  std::vector<bool> is_lost(trace_->values.size());
  for (std::uint32_t number = 0; number < lost.size(); ++number) {
    if (lost[number] && script_->values[number].id != planner::kNone) {
      is_lost[script_->values[number].id] = true;
    }
  }
  mark_evicted(*trace_, is_lost);
  renew_planner(stores());
}

void KnownStep::make_plan(const BudgetAim& aim) {
  const std::optional<planner::Solution> solution = find_plan_or_smallest(aim);
  planner_->release_memory();
  if (!solution) {
    plan_ = nullptr;
    return;
  }
  set_plan(solution->plan, solution->simulation, solution->bound_seconds);
}

void KnownStep::set_plan(const planner::Plan& planned, const planner::Simulation& simulation,
                         double bound_seconds) {
  auto plan = std::make_shared<StepPlan>(StepPlan{.script = script_,
                                                  .choices = {},
                                                  .stores = {},
                                                  .fetches = {},
                                                  .releases = {},
                                                  .peak_growth = 0,
                                                  .peak_error = 0,
                                                  .in_flight = in_flight_.most(),
                                                  .base_rise = 0,
                                                  .seconds = simulation.seconds,
                                                  .plain_seconds = trace_->seconds(),
                                                  .bound_seconds = bound_seconds});
  reduced_ = planner_->simulator().reduced(planned);
  for (const StepScript::Value& value : script_->values) {
    plan->choices.push_back(choice_of(value.id));
  }
  plan->releases = releases(plan->choices);
  add_stores(*plan);
  planned_growth_ = simulation.peak_bytes - trace_->bytes_before_step();
  simulated_held_ = held_by(reduced_);
  plan_ = std::move(plan);
}

std::vector<PlannedRelease> KnownStep::releases(const std::vector<planner::Choice>& choices) const {
  std::vector<PlannedRelease> releases;
  for (std::uint32_t number = 0; number < choices.size(); ++number) {
    const std::uint32_t call = script_->values[number].until_call;
    if (call > 0 && !choices[number].is_retained()) {
      releases.push_back({call, number});
    }
  }
  std::stable_sort(
      releases.begin(), releases.end(),
      [](const PlannedRelease& a, const PlannedRelease& b) { return a.call < b.call; });
  return releases;
}

// What the program itself holds until backward costs nothing.
planner::Choice KnownStep::choice_of(planner::ValueId value) const {
  if (value == planner::kNone) {
    return planner::Choice::recompute();
  }
  return trace_->is_held(value) ? planner::Choice::retain() : reduced_.choices[value];
}

void KnownStep::add_stores(StepPlan& plan) const {
  const bool has_stored =
      std::any_of(plan.choices.begin(), plan.choices.end(),
                  [](const planner::Choice& choice) { return choice.store != planner::kNone; });
  if (!has_stored) {
    return;
  }
  plan.stores = stores_;
  plan.fetches = fetches();
}

// A fetch begins when backward reads the last value of forward before it is due.
std::vector<PlannedFetch> KnownStep::fetches() const {
  absl::flat_hash_map<planner::ValueId, std::uint32_t> numbers;  // the first of each value
  for (std::uint32_t number = 0; number < script_->values.size(); ++number) {
    numbers.try_emplace(script_->values[number].id, number);
  }
  std::vector<PlannedFetch> planned;
  std::vector<int> reads(trace_->values.size());
  std::optional<PlannedFetch> next;
  planner::OperatorId op = trace_->backward_begin;
  for (const planner::Fetch& fetch : planner_->simulator().fetches(reduced_)) {
    for (; op <= fetch.before; ++op) {
      const std::vector<planner::ValueId>& read = trace_->operators[op].reads;
      std::for_each(read.begin(), read.end(), [&](planner::ValueId value) { ++reads[value]; });
      const auto trigger = std::find_if(read.begin(), read.end(), [&](planner::ValueId value) {
        return numbers.contains(value);
      });
      if (trigger != read.end()) {
        next = {.trigger = numbers.at(*trigger), .reads = reads[*trigger], .number = 0};
      }
    }
    if (const auto found = numbers.find(fetch.value); next && found != numbers.end()) {
      next->number = found->second;
      planned.push_back(*next);
    }
  }
  std::stable_sort(planned.begin(), planned.end(),
                   [](const PlannedFetch& a, const PlannedFetch& b) { return a.key() < b.key(); });
  return planned;
}

}  // namespace reprise::engine_internal
