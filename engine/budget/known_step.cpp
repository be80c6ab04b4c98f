// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/known_step.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "reprise/planner/explain.h"

namespace reprise::engine_internal {
namespace {

bool are_alike(const planner::Trace& a, const planner::Trace& b) {
  return std::equal(a.operators.begin(), a.operators.end(), b.operators.begin(), b.operators.end(),
                    [](const planner::Operator& one, const planner::Operator& other) {
                      return one.name == other.name;
                    });
}

// Planning takes about as long as this number of steps at most, if it finds a plan.
constexpr double kStepsOfPlanning = 2;

int simulations_for(const planner::Trace& trace) {
  constexpr double kSecondsPerOperator = 60e-9;  // of a simulation
  constexpr int kLeast = 200;
  const planner::PlannerOptions defaults;
  const double seconds = kSecondsPerOperator * static_cast<double>(trace.operators.size() + 1);
  return std::clamp(static_cast<int>(std::min<double>(kStepsOfPlanning * trace.seconds() / seconds,
                                                      defaults.max_simulations)),
                    kLeast, defaults.max_simulations);
}

}  // namespace

std::optional<planner::Solution> smallest_peak_of(planner::Planner& planner) {
  try {
    return planner.smallest_peak();
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

KnownStep::KnownStep(RecordedStep recorded, const StoreRates& rates)
    : recordings_(recorded.is_final() ? 1 : 0), backward_(recorded.backward) {
  replace(std::move(recorded), rates);
}

void KnownStep::replace(RecordedStep recorded, const StoreRates& rates) {
  const bool is_alike = trace_ != nullptr && are_alike(*trace_, recorded.trace);
  if (!is_alike) {
    excess_bytes_ = 0;
    least_excess_bytes_ = std::numeric_limits<std::int64_t>::min() / 2;
  }
  excess_seconds_ = 0;
  timed_steps_ = 0;
  script_ = std::make_shared<const StepScript>(std::move(recorded.script));
  planner_.reset();
  trace_ = std::make_unique<const planner::Trace>(std::move(recorded.trace));
  std::vector<planner::StoreOption> stores;
  if (uses_stores_) {
    stores = rates.options(*script_, trace_->values.size());
  }
  stores_.clear();
  for (std::size_t store = 0; store < stores.size(); ++store) {
    stores_.push_back({.number = static_cast<int>(store),
                       .put_seconds_per_byte = stores[store].put_seconds_per_byte,
                       .is_overlapped = stores[store].is_overlapped,
                       .keeps_last = rates.rate(store).keeps_last()});
  }
  make_planner(std::move(stores));
}

void KnownStep::make_planner(std::vector<planner::StoreOption> stores) {
  plan_.reset();
  room_ = -1;
  plans_for_more_room_ = 0;
  simulations_ = simulations_for(*trace_);
  planner_ = std::make_unique<planner::Planner>(
      *trace_,
      planner::PlannerOptions{.stores = std::move(stores), .max_simulations = simulations_});
}

std::optional<planner::Solution> KnownStep::find_plan(const BudgetAim& aim) {
  return aim.max_overhead ? planner_->plan_within_overhead(*aim.max_overhead)
                          : planner_->plan(room_ + trace_->bytes_before_step());
}

// Without a plan within the budget, each step takes longer than to look for one thoroughly, once;
// and the guard has the least to do with the smallest peak.
std::optional<planner::Solution> KnownStep::find_plan_or_smallest(const BudgetAim& aim) {
  std::optional<planner::Solution> solution = find_plan(aim);
  const planner::PlannerOptions defaults;
  if (!solution && simulations_ < defaults.max_simulations) {
    simulations_ = defaults.max_simulations;
    planner_ = std::make_unique<planner::Planner>(
        *trace_, planner::PlannerOptions{.stores = planner_->simulator().stores()});
    solution = find_plan(aim);
  }
  is_smallest_ = !solution;
  return solution ? std::move(solution) : smallest_peak_of(*planner_);
}

void KnownStep::note_failure(const StepPlan& plan) {
  if (!plan.stores.empty()) {
    uses_stores_ = false;
    make_planner({});
  }
}

// The first run of a step takes longer than later ones: of two times the shorter counts.
void KnownStep::add_recording(RecordedStep recorded, const StoreRates& rates) {
  if (are_alike(*trace_, recorded.trace)) {
    for (std::size_t op = 0; op < recorded.trace.operators.size(); ++op) {
      double& seconds = recorded.trace.operators[op].seconds;
      seconds = std::min(seconds, trace_->operators[op].seconds);
    }
  }
  recordings_ += recorded.is_final() ? 1 : 0;
  backward_ = recorded.backward;
  replace(std::move(recorded), rates);
}

std::shared_ptr<const StepPlan> KnownStep::plan_for(const BudgetAim& aim,
                                                    std::int64_t bytes_before) {
  const std::int64_t room =
      std::max<std::int64_t>(0, aim.peak_bytes - bytes_before - excess_bytes_);
  if (needs_plan(room, aim)) {
    room_ = room;
    make_plan(aim);
  }
  if (plan_ == nullptr) {
    return nullptr;
  }
  auto plan = std::make_shared<StepPlan>(*plan_);
  plan->peak_growth = planned_growth_ + plan->peak_error;
  for (double* const seconds : {&plan->seconds, &plan->plain_seconds, &plan->bound_seconds}) {
    *seconds += excess_seconds_;
  }
  return plan;
}

// Planning takes longer than a small step: more room alone is worth it a few times.
bool KnownStep::needs_plan(std::int64_t room, const BudgetAim& aim) {
  if (room_ < 0) {
    return true;
  }
  if (aim.max_overhead) {
    return false;
  }
  constexpr std::int64_t kPart = 64;  // of the budget, that is too little to be worth it
  constexpr int kMostPlans = 4;
  if (room > room_ + aim.peak_bytes / kPart && plans_for_more_room_ < kMostPlans) {
    ++plans_for_more_room_;
    return true;
  }
  return room < planned_growth_ && !is_smallest_;
}

void KnownStep::make_plan(const BudgetAim& aim) {
  const std::optional<planner::Solution> solution = find_plan_or_smallest(aim);
  planner_->release_memory();
  if (!solution) {
    plan_ = nullptr;
    return;
  }
  auto plan = std::make_shared<StepPlan>(StepPlan{.script = script_,
                                                  .choices = {},
                                                  .stores = {},
                                                  .fetches = {},
                                                  .peak_growth = 0,
                                                  .peak_error = 0,
                                                  .seconds = solution->simulation.seconds,
                                                  .plain_seconds = trace_->seconds(),
                                                  .bound_seconds = solution->bound_seconds});
  reduced_ = planner_->simulator().reduced(solution->plan);
  for (const StepScript::Value& value : script_->values) {
    plan->choices.push_back(choice_of(value.id));
  }
  add_stores(*plan);
  planned_growth_ = solution->simulation.peak_bytes - trace_->bytes_before_step();
  plan_ = std::move(plan);
}

// What the program itself holds until backward costs nothing.
planner::Choice KnownStep::choice_of(planner::ValueId value) const {
  if (value == planner::kNone) {
    return planner::Choice::recompute();
  }
  const planner::OperatorId released = trace_->values[value].released;
  const bool is_held = released == planner::kNone || released >= trace_->backward_begin;
  return is_held ? planner::Choice::retain() : reduced_.choices[value];
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

void KnownStep::calibrate(const StepPlan& plan, const MeasuredStep& measured) {
  if (measured.shortage_bytes > 0) {
    excess_bytes_ += measured.shortage_bytes;
    least_excess_bytes_ = excess_bytes_;
  } else {
    const std::int64_t error = plan.peak_error + measured.growth - plan.peak_growth;
    excess_bytes_ = std::max(least_excess_bytes_, error);
    if (plan_ != nullptr && plan_->choices == plan.choices) {
      plan_->peak_error = error;
    }
  }
  if (measured.seconds) {
    constexpr int kMostSteps = 4;  // that the mean goes over: a machine's speed changes
    timed_steps_ = std::min(timed_steps_ + 1, kMostSteps);
    excess_seconds_ += (*measured.seconds - plan.seconds) / timed_steps_;
  }
}

std::string KnownStep::explain(const std::string& op) {
  return planner::explain(planner_->simulator(), reduced_, op);
}

KnownStep::Summary KnownStep::summarize(const BudgetAim& aim) {
  Summary summary;
  for (std::size_t value = 0; value < reduced_.choices.size(); ++value) {
    if (reduced_.choices[value].is_retained()) {
      ++summary.retained;
      summary.retained_bytes += trace_->values[value].bytes;
      const bool is_stored = reduced_.choices[value].store != planner::kNone;
      summary.stored += is_stored ? 1 : 0;
      summary.stored_bytes += is_stored ? trace_->values[value].bytes : 0;
    }
  }
  for (const planner::ScheduledRun& run : planner_->simulator().schedule(reduced_)) {
    summary.repeated += run.requested_by != planner::kNone ? 1 : 0;
  }
  summary.is_backward_estimated = backward_ != RecordedBackward::kWhole;
  summary.peak_operator = trace_->operators[planner_->simulator().run(reduced_).peak_operator].name;
  if (!aim.max_overhead && room_ > 0) {
    constexpr std::int64_t kPart = 10;
    summary.more_bytes = room_ / kPart;
    if (const auto more =
            planner_->plan(room_ + summary.more_bytes + trace_->bytes_before_step())) {
      summary.seconds_with_more = more->simulation.seconds + excess_seconds_;
    }
    planner_->release_memory();
  }
  return summary;
}

}  // namespace reprise::engine_internal
