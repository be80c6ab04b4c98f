// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plans of a step that is known.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/budget/known_step.h"

namespace reprise::engine_internal {

void KnownStep::make_planner() {
  plan_.reset();
  found_ = {};
  kept_.clear();
  room_ = -1;
  plans_made_anew_ = 0;
  planner_ = std::make_shared<StepPlanner>(trace_, stores_);
  plain_growth_ = planner_->simulator().run(planner::retain_all(*trace_)).peak_bytes -
                  trace_->bytes_before_step();
}

std::shared_ptr<const StepPlan> KnownStep::plan_for(const BudgetAim& aim, std::int64_t bytes_before,
                                                    const std::vector<bool>& kept,
                                                    bool is_under_way, const PlanningShare& share,
                                                    BackgroundPlanning* background) {
  ++visits_;
  const InFlight& in_flight = in_flight_.most();
  const std::int64_t base =
      in_flight_.is_alone() ? bytes_before : std::max(bytes_before, in_flight_.highest_base());
  const std::int64_t room = std::max<std::int64_t>(
      0, aim.peak_bytes - base - corrections_.excess_bytes - in_flight.other_bytes);
  const std::int64_t usual_room =
      aim.varies ? room : room - std::max<std::int64_t>(0, in_flight_.highest_base() - base);
  std::shared_ptr<StepPlan> plan =
      is_under_way && plan_ != nullptr ? prepared(base, bytes_before) : nullptr;
  const double seconds_left = background != nullptr ? std::numeric_limits<double>::infinity()
                                                    : share.left_for(trace_->seconds());
  double planning_seconds = 0;
  if (needs_plan(room, usual_room, aim, kept, seconds_left)) {
    PlanRequest wanted = request(room, aim, kept);
    wanted.seconds = seconds_left;
    planning_seconds = make_plan(std::move(wanted), background);
  }
  if (plan_ == nullptr) {
    return nullptr;
  }
  if (plan == nullptr) {
    plan = prepared(base, bytes_before);
    plan->is_late = is_under_way;
  }
  plan->is_new = std::exchange(plan_->is_new, false);
  plan->planning_seconds = planning_seconds;
  return plan;
}

std::shared_ptr<StepPlan> KnownStep::prepared(std::int64_t base, std::int64_t bytes_before) const {
  const InFlight& in_flight = in_flight_.most();
  auto plan = std::make_shared<StepPlan>(*plan_);
  plan->in_flight = in_flight;
  plan->base_rise = base - bytes_before;
  plan->peak_growth =
      plan->base_rise + growth_in_flight() + in_flight.other_bytes + plan->peak_error;
  for (double* const seconds : {&plan->seconds, &plan->plain_seconds, &plan->bound_seconds}) {
    *seconds += corrections_.excess_seconds;
  }
  return plan;
}

PlanRequest KnownStep::request(std::int64_t room, const BudgetAim& aim,
                               const std::vector<bool>& kept) const {
  return {.room = room_to_plan(room, aim),
          .max_overhead = aim.max_overhead,
          .excess_bytes = corrections_.excess_bytes,
          .alike = in_flight_.most().alike,
          .held_error = corrections_.held_error,
          .kept = in_trace(kept)};
}

// See Note [Plans in the background].
double KnownStep::make_plan(PlanRequest request, BackgroundPlanning* background) {
  if (background != nullptr && plan_ == nullptr && asked_ != planner_) {
    set_plan(planner_->plain());
    if (plan_ != nullptr) {
      plan_->is_stopgap = true;
    }
  }
  if (background != nullptr && background->is_busy()) {
    return 0;
  }
  plans_made_anew_ += room_ < 0 ? 0 : 1;
  if (background != nullptr && background->begin(planner_, request)) {
    asked_ = planner_;
    return 0;
  }
  const auto start = std::chrono::steady_clock::now();
  room_ = request.room;
  corrections_.planned_for_bytes = request.excess_bytes;
  set_plan(planner_->find(request));
  kept_ = std::move(request.kept);
  if (plan_ != nullptr) {
    plan_->is_new = true;
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool KnownStep::adopt(const BackgroundPlanning::Outcome& outcome) {
  if (asked_ == nullptr || asked_ != outcome.planner) {
    return false;
  }
  const bool is_current = std::exchange(asked_, nullptr) == planner_;
  if (outcome.is_lost || outcome.error != nullptr) {
    if (is_current) {
      planner_ = std::make_shared<StepPlanner>(trace_, stores_);
      room_ = -1;
    }
  } else if (is_current) {
    room_ = outcome.request.room;
    corrections_.planned_for_bytes = outcome.request.excess_bytes;
    kept_ = outcome.request.kept;
    set_plan(outcome.found);
  } else if (outcome.found && (plan_ == nullptr || plan_->is_stopgap)) {
    set_plan(planner_->simulate(outcome.found->plan, outcome.found->bound_seconds));
  }
  if (plan_ != nullptr) {
    plan_->is_new = !outcome.is_lost && outcome.error == nullptr;
  }
  return true;
}

void KnownStep::carry_over(const planner::Plan& plan, const StepPlan& earlier) {
  set_plan(planner_->simulate(plan, earlier.bound_seconds));
  if (plan_ != nullptr) {
    plan_->peak_error = earlier.peak_error;
  }
}

// A plan that is made anew takes about two steps: a few times, and then once in so many steps, it
// is worth that. Where limits vary, there are no more plans than room_to_plan() has rooms. See also
// Note [The share of planning].
bool KnownStep::needs_plan(std::int64_t room, std::int64_t usual_room, const BudgetAim& aim,
                           const std::vector<bool>& kept, double seconds_left) const {
  constexpr int kMostPlans = 4;
  constexpr int kStepsPerPlan = 20;
  constexpr double kStepsOfPlan = 2;
  if (room_ < 0) {
    return true;
  }
  if (!aim.varies && plans_made_anew_ >= kMostPlans + visits_ / kStepsPerPlan) {
    return false;
  }
  const bool lacks_room = !aim.max_overhead && room < growth_in_flight() && !found_.is_smallest;
  return lacks_room || lacks(kept) ||
         (seconds_left >= kStepsOfPlan * trace_->seconds() &&
          is_worth_replacing(room, usual_room, aim));
}

// Steps that begin with less in use than others, as before the first gradients, need no plan for
// more room.
bool KnownStep::is_worth_replacing(std::int64_t room, std::int64_t usual_room,
                                   const BudgetAim& aim) const {
  constexpr std::int64_t kPart = 64;  // of the budget, that is too little to be worth a plan
  if (found_.is_shortened) {
    return true;
  }
  if (aim.max_overhead) {
    return false;
  }
  const bool is_plain = plan_ != nullptr && plan_->seconds <= plan_->plain_seconds;
  const bool is_for_more = plan_ != nullptr && plan_->in_flight.alike > in_flight_.most().alike;
  return !is_plain && (is_for_more || (aim.varies ? room_to_plan(room, aim) > room_
                                                  : usual_room > room_ + aim.peak_bytes / kPart));
}

// A limit that varies gets plans for 32nds of the plain step, so that small changes need no plan.
std::int64_t KnownStep::room_to_plan(std::int64_t room, const BudgetAim& aim) const {
  constexpr std::int64_t kParts = 32;
  if (!aim.varies || plain_growth_ < kParts) {
    return room;
  }
  return std::min(room - room % (plain_growth_ / kParts), plain_growth_);
}

// Returns whether the plan lets go of much that is to be kept, and was made without knowing that.
bool KnownStep::lacks(const std::vector<bool>& kept) const {
  constexpr std::int64_t kPart = 32;  // of the room, that is not much
  std::int64_t bytes = 0;
  for (std::uint32_t number = 0; number < kept.size(); ++number) {
    const planner::ValueId value = script_->values[number].id;
    if (kept[number] && value != planner::kNone && !trace_->is_held(value) &&
        !found_.plan.choices[value].is_retained() && !(!kept_.empty() && kept_[value])) {
      bytes += trace_->values[value].bytes;
    }
  }
  return plan_ != nullptr && bytes > room_ / kPart;
}

// Returns the same by value of the trace; nothing if there are none.
std::vector<bool> KnownStep::in_trace(const std::vector<bool>& kept) const {
  std::vector<bool> is_kept(trace_->values.size());
  bool has_any = false;
  for (std::uint32_t number = 0; number < kept.size(); ++number) {
    if (kept[number] && script_->values[number].id != planner::kNone) {
      is_kept[script_->values[number].id] = has_any = true;
    }
  }
  return has_any ? is_kept : std::vector<bool>();
}

void KnownStep::set_plan(std::optional<FoundPlan> found) {
  plan_.reset();
  found_ = found ? *std::move(found) : FoundPlan();
  if (found_.plan.choices.empty()) {
    return;
  }
  auto plan = std::make_shared<StepPlan>(StepPlan{.script = script_,
                                                  .choices = {},
                                                  .stores = {},
                                                  .fetches = {},
                                                  .releases = {},
                                                  .peak_growth = 0,
                                                  .peak_error = 0,
                                                  .in_flight = in_flight_.most(),
                                                  .base_rise = 0,
                                                  .seconds = found_.simulation.seconds,
                                                  .plain_seconds = trace_->seconds(),
                                                  .bound_seconds = found_.bound_seconds});
  for (const StepScript::Value& value : script_->values) {
    plan->choices.push_back(choice_of(value.id));
  }
  plan->releases = releases(plan->choices);
  add_stores(*plan);
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
  return trace_->is_held(value) ? planner::Choice::retain() : found_.plan.choices[value];
}

void KnownStep::add_stores(StepPlan& plan) const {
  const bool has_stored =
      std::any_of(plan.choices.begin(), plan.choices.end(),
                  [](const planner::Choice& choice) { return choice.store != planner::kNone; });
  if (!has_stored) {
    return;
  }
  plan.stores = planned_stores_;
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
  for (const planner::Fetch& fetch : found_.fetches) {
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
