// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The plan of a step's backward that is made when forward has ended.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/tape_replay/tape_eviction.h"
#include "reprise/planner/planner.h"

namespace reprise::engine_internal {
namespace {

// The step waits: a quick search, with some room for what is not foreseen; a thorough one if that
// finds nothing. Without a plan within the limit, the guard has the least to do with the smallest
// peak.
std::optional<planner::Solution> solve(const planner::Trace& trace, std::int64_t peak_bytes) {
  constexpr int kFewSimulations = 100;
  constexpr std::int64_t kUnforeseen = 100;  // of the room, one part
  const std::int64_t room = peak_bytes - trace.bytes_before_step();
  planner::Planner quick(trace, {.stores = {}, .max_simulations = kFewSimulations});
  if (auto solution = quick.plan(peak_bytes - room / kUnforeseen)) {
    return solution;
  }
  planner::Planner thorough(trace);
  auto solution = thorough.plan(peak_bytes);
  return solution ? std::move(solution) : smallest_peak_of(thorough);
}

// Returns nothing if the step fits as it is, or no plan is valid.
std::optional<planner::Plan> plan_rest(const planner::Trace& trace, std::int64_t peak_bytes) {
  const planner::Simulator simulator(trace);
  const planner::Simulation as_it_is = simulator.run(planner::retain_all(trace));
  if (as_it_is.is_valid && as_it_is.peak_bytes <= peak_bytes) {
    return std::nullopt;
  }
  const std::optional<planner::Solution> solution = solve(trace, peak_bytes);
  return solution ? std::optional(simulator.reduced(solution->plan)) : std::nullopt;
}

}  // namespace

bool BudgetStep::awaits_plan(const StepRecording& recording) const {
  return is_recorded_by_ == &recording && !is_in_forward_ && transcript_ && !has_planned_rest_ &&
         followed_.plan() == nullptr && !state_->aim().max_overhead;
}

bool BudgetStep::plan_backward(Tape& tape) {
  const std::vector<hooks_internal::BackwardNode> nodes = std::exchange(expected_, {});
  if (nodes.empty() || !transcript_) {
    return false;
  }
  const auto trace = transcript_->foresee(nodes, nodes_thread_, tape);
  if (!trace) {
    return false;
  }
  begin_replay();
  const absl::Cleanup is_done = [this] { end_replay(); };
  const auto plan = plan_rest(*trace, limit_bytes_ - bytes_before_ + trace->bytes_before_step());
  if (!plan) {
    return false;
  }
  follow_in_backward(*trace, *plan, tape);
  return has_planned_rest_ = true;
}

void BudgetStep::follow_in_backward(const planner::Trace& trace, const planner::Plan& plan,
                                    Tape& tape) {
  std::vector<TapeValueId> unneeded;
  for (const TapeValueId value : tape.values.ids()) {
    const planner::ValueId id = transcript_->value_of(value);
    if (id == planner::kNone) {
      continue;
    }
    const planner::OperatorId released = trace.values[id].released;
    const bool is_held = released == planner::kNone || released >= trace.backward_begin;
    const planner::Choice choice = plan.choices[id];
    tape.values[value].retained_from = std::max<std::uint8_t>(choice.retained_from, 1);
    if (!is_held && !choice.is_retained() && tape.given.contains(value)) {
      unneeded.push_back(value);
    }
  }
  TapeEviction(tape, tape.operators.size(), source_.device()).evict_all(unneeded);
}

}  // namespace reprise::engine_internal
