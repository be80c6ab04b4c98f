// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plan of a step's backward that is made when forward has ended.
#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/budget/backward_forecast.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/step_planner.h"
#include "reprise/engine/tape_replay/tape_eviction.h"
#include "reprise/planner/planner.h"

namespace reprise::engine_internal {
namespace {

// The step waits: a quick search, with some room for what is not foreseen; a longer one if a bound
// shows that there may be a much faster plan, without that room if it is worth much time, as where
// it is that of another checkpoint; a thorough one if there is none. Without a plan within the
// limit, the guard has the least to do with the smallest peak.
std::optional<planner::Solution> solve(const planner::Trace& trace, std::int64_t peak_bytes) {
  constexpr int kFewSimulations = 100;
  constexpr int kPartOfLonger = 8;           // of those for a known step
  constexpr std::int64_t kUnforeseen = 100;  // of the room, one part
  constexpr double kMuchTime = 0.05;         // of the step's
  const std::int64_t with_room =
      peak_bytes - (peak_bytes - trace.bytes_before_step()) / kUnforeseen;
  const double much_seconds = kMuchTime * trace.seconds();
  planner::Planner quick(trace, {.stores = {}, .max_simulations = kFewSimulations});
  auto solution = quick.plan(with_room);
  if (solution && solution->gap_seconds() <= much_seconds) {
    return solution;
  }
  const int simulations = std::max(kFewSimulations, simulations_for(trace) / kPartOfLonger);
  planner::Planner longer(trace, {.stores = {}, .max_simulations = simulations});
  solution = longer.plan(with_room);
  auto without_room = longer.plan(peak_bytes);
  const bool is_worth_it =
      without_room &&
      (!solution || solution->simulation.seconds > without_room->simulation.seconds + much_seconds);
  if (is_worth_it) {
    return without_room;
  }
  if (solution) {
    return solution;
  }
  planner::Planner thorough(trace);
  solution = thorough.plan(peak_bytes);
  return solution ? std::move(solution) : smallest_peak_of(thorough);
}

// Returns nothing if the step fits as it is, or no plan is valid.
std::optional<planner::Plan> find_rest(const planner::Trace& trace, std::int64_t peak_bytes) {
  const planner::Simulator simulator(trace);
  const planner::Simulation as_it_is = simulator.run(planner::retain_all(trace));
  if (as_it_is.is_valid && as_it_is.peak_bytes <= peak_bytes) {
    return std::nullopt;
  }
  const std::optional<planner::Solution> solution = solve(trace, peak_bytes);
  return solution ? std::optional(simulator.reduced(solution->plan)) : std::nullopt;
}

// Has values of the tape be what was chosen for them from now on.
void carry_out(Tape& tape, const std::vector<std::pair<TapeValueId, planner::Choice>>& choices,
               c10::Device device) {
  std::vector<TapeValueId> unneeded;
  for (const auto& [value, choice] : choices) {
    tape.values[value].retained_from = std::max<std::uint8_t>(choice.retained_from, 1);
    if (!choice.is_retained() && tape.given.contains(value)) {
      unneeded.push_back(value);
    }
  }
  TapeEviction(tape, tape.operators.size(), device).evict_all(unneeded);
}

}  // namespace

// What the program still held when the step came to follow its plan can be freed now.
bool BudgetStep::plan_backward(Tape& tape) {
  // Only once: other backwards may replay the tape by the time a later one begins.
  if (!is_in_forward_ && !std::exchange(has_looked_for_rewritten_, true) &&
      state_->rewritten().find(tape, RewrittenMemory::By::kVersion)) {
    has_found_rewritten_ = true;
  }
  const std::vector<hooks_internal::BackwardNode> nodes = std::exchange(expected_, {});
  const std::optional<planner::Trace> expected =
      !nodes.empty() && transcript_ ? transcript_->foresee(nodes, nodes_thread_, tape)
                                    : std::nullopt;
  const bool lacks_plan = followed_.guards_alone() || followed_.plan()->is_late;
  if (expected && lacks_plan && !has_planned_rest_ && state_->has_limit() &&
      plan_rest(tape, *expected)) {
    return true;
  }
  const bool is_to_align = !is_in_forward_ && std::exchange(is_to_align_, false);
  if (is_to_align && !followed_.guards_alone()) {
    follow_from_here(tape);
    return true;
  }
  return false;
}

// See Note [Expected backward].
bool BudgetStep::plan_rest(Tape& tape, const planner::Trace& expected) {
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  const Clock::time_point start = Clock::now();
  const std::int64_t peak_bytes = limit_.bytes - base_bytes_ -
                                  state_->in_flight().held_beside(this) +
                                  expected.bytes_before_step();
  if (const ForecastObserver observer = forecast_observer()) {
    observer(expected, peak_bytes);
  }
  const auto plan = find_rest(expected, peak_bytes);
  ++plans_;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  planning_seconds_ += seconds;
  state_->note_planning(seconds);
  if (!plan) {
    return false;
  }
  std::vector<std::pair<TapeValueId, planner::Choice>> choices;
  for (const TapeValueId value : tape.values.ids()) {
    if (const planner::ValueId id = transcript_->value_of(value); id != planner::kNone) {
      choices.emplace_back(value,
                           expected.is_held(id) ? planner::Choice::retain() : plan->choices[id]);
    }
  }
  carry_out(tape, choices, source_.device());
  return has_planned_rest_ = true;
}

// See Note [Shared beginnings].
planner::Choice BudgetStep::choice_of(std::uint32_t number) const {
  const planner::Choice planned = followed_.plan()->choices[number];
  const bool is_for_others =
      is_in_forward_ && !planned.is_retained() && followed_.is_kept_by_others(number);
  return is_for_others ? planner::Choice::retain() : planned;
}

// Another plan is followed than before: see Note [Shared beginnings].
void BudgetStep::follow_from_here(Tape& tape) {
  is_to_align_ = is_in_forward_;
  keeps_more_ = keeps_more_ && is_in_forward_;
  guard_.assign_peak();
  peak_before_plan_ = peak_bytes_;
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  std::vector<std::pair<TapeValueId, planner::Choice>> choices;
  const std::span<const TapeValueId> values = followed_.values();
  const StepScript& script = *followed_.plan()->script;
  for (std::size_t number = 0; number < std::min(values.size(), script.values.size()); ++number) {
    if (script.values[number].until_call <= followed_.calls()) {
      choices.emplace_back(values[number], choice_of(static_cast<std::uint32_t>(number)));
    }
  }
  carry_out(tape, choices, source_.device());
  releases_ = 0;
}

void BudgetStep::release_due(Tape& tape) {
  const std::vector<PlannedRelease>& releases = followed_.plan()->releases;
  std::vector<std::pair<TapeValueId, planner::Choice>> choices;
  for (; releases_ < releases.size() && releases[releases_].call <= followed_.calls();
       ++releases_) {
    const std::uint32_t number = releases[releases_].number;
    choices.emplace_back(followed_.values()[number], choice_of(number));
  }
  if (!choices.empty()) {
    carry_out(tape, choices, source_.device());
  }
}

// A plan that does not know of it may count on computing the value again.
bool BudgetStep::note_made_once(TapeValueId value, const at::Tensor& tensor) {
  if (transcript_) {
    transcript_->note_made_once(value, tensor);
  }
  if (followed_.plan() == nullptr) {
    return false;
  }
  const std::span<const TapeValueId> values = followed_.values();
  const auto known = std::find(values.rbegin(), values.rend(), value);
  const auto number = static_cast<std::size_t>(values.rend() - known);  // from 1
  const std::vector<StepScript::Value>& planned = followed_.plan()->script->values;
  return number == 0 || number > planned.size() || !planned[number - 1].is_made_once;
}

}  // namespace reprise::engine_internal
