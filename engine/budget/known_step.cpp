// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/known_step.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reprise/planner/explain.h"

namespace reprise::engine_internal {
namespace {

bool are_alike(const planner::Trace& a, const planner::Trace& b) {
  return std::equal(a.operators.begin(), a.operators.end(), b.operators.begin(), b.operators.end(),
                    [](const planner::Operator& one, const planner::Operator& other) {
                      return one.name == other.name;
                    });
}

}  // namespace

KnownStep::KnownStep(RecordedStep recorded, const StoreRates& rates)
    : backward_(recorded.backward), recordings_(recorded.is_final() ? 1 : 0) {
  replace(std::move(recorded), rates);
}

void KnownStep::replace(RecordedStep recorded, const StoreRates& rates) {
  if (trace_ == nullptr || !are_alike(*trace_, recorded.trace)) {
    corrections_ = {};
  }
  corrections_.excess_seconds = 0;
  corrections_.timed_steps = 0;
  recorded.script.number = script_ == nullptr ? recorded.script.number : script_->number;
  script_ = std::make_shared<const StepScript>(std::move(recorded.script));
  trace_ = std::make_shared<const planner::Trace>(std::move(recorded.trace));
  set_stores(rates);
  make_planner();
}

void KnownStep::set_stores(const StoreRates& rates) {
  stores_.clear();
  planned_stores_.clear();
  if (!uses_stores_) {
    return;
  }
  stores_ = rates.options(*script_, trace_->values.size());
  for (std::size_t store = 0; store < stores_.size(); ++store) {
    planned_stores_.push_back({.number = static_cast<int>(store),
                               .put_seconds_per_byte = stores_[store].put_seconds_per_byte,
                               .is_overlapped = stores_[store].is_overlapped,
                               .keeps_last = rates.rate(store).keeps_last()});
  }
}

void KnownStep::note_failure(const StepPlan& plan) {
  if (!plan.stores.empty()) {
    uses_stores_ = false;
    stores_.clear();
    planned_stores_.clear();
    make_planner();
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
  const std::shared_ptr<const StepPlan> earlier = plan_;
  const planner::Plan choices = found_.plan;
  replace(std::move(recorded), rates);
  if (earlier != nullptr && !earlier->is_stopgap) {
    carry_over(choices, *earlier);
  }
}

// What steps that end in between leave behind, as gradients of parameters, raises more than the
// step does alone.
std::int64_t KnownStep::rise_by_others(const MeasuredStep& measured) {
  if (!measured.rise_bytes) {
    return 0;
  }
  corrections_.own_rise = std::min(corrections_.own_rise, *measured.rise_bytes);
  return *measured.rise_bytes - corrections_.own_rise;
}

void KnownStep::calibrate(const StepPlan& plan, const MeasuredStep& measured) {
  const std::int64_t rise = rise_by_others(measured);
  note_in_flight(measured.in_flight, measured.bytes_before + rise);
  if (measured.held_bytes && plan_ != nullptr && plan_->choices == plan.choices) {
    corrections_.held_error = *measured.held_bytes - found_.held_bytes;
  }
  const InFlight& seen = measured.in_flight;
  const bool is_alone = seen == InFlight() && plan.in_flight == seen;
  if (!is_alone && (seen.alike > plan.in_flight.alike ||
                    seen.other_bytes > plan.in_flight.other_bytes || rise > plan.base_rise)) {
    return;  // the plan was made for less
  }
  // A step that begins before the first gradients exist makes those that others add to.
  constexpr std::int64_t kPart = 64;  // of the room, by which the bytes before steps vary
  const bool is_usual = measured.bytes_before + rise >= in_flight_.highest_base() - room_ / kPart;
  const bool is_as_planned = measured.is_whole && is_usual &&
                             (is_alone || (seen == plan.in_flight && rise == plan.base_rise));
  if (measured.shortage_bytes > 0) {
    corrections_.excess_bytes = std::max(corrections_.excess_bytes,
                                         corrections_.planned_for_bytes + measured.shortage_bytes);
    if (is_as_planned) {  // the plan may have left room
      const std::int64_t needed = measured.limit_growth + measured.shortage_bytes;
      corrections_.excess_bytes =
          std::max(corrections_.excess_bytes, plan.peak_error + needed - plan.peak_growth);
    }
    corrections_.least_excess_bytes = corrections_.excess_bytes;
  } else if (is_as_planned) {
    const std::int64_t error = plan.peak_error + measured.growth - plan.peak_growth;
    corrections_.excess_bytes = std::max(corrections_.least_excess_bytes, error);
    if (plan_ != nullptr && plan_->choices == plan.choices) {
      plan_->peak_error = error;
    }
  }
  if (measured.seconds) {
    constexpr int kMostSteps = 4;  // that the mean goes over: a machine's speed changes
    corrections_.timed_steps = std::min(corrections_.timed_steps + 1, kMostSteps);
    corrections_.excess_seconds += (*measured.seconds - plan.seconds) / corrections_.timed_steps;
  }
}

std::string KnownStep::explain(const std::string& op) {
  return planner::explain(planner_->simulator(), found_.plan, op);
}

KnownStep::Summary KnownStep::summarize(const BudgetAim& aim) {
  Summary summary;
  for (std::size_t value = 0; value < found_.plan.choices.size(); ++value) {
    if (found_.plan.choices[value].is_retained()) {
      ++summary.retained;
      summary.retained_bytes += trace_->values[value].bytes;
      const bool is_stored = found_.plan.choices[value].store != planner::kNone;
      summary.stored += is_stored ? 1 : 0;
      summary.stored_bytes += is_stored ? trace_->values[value].bytes : 0;
    }
  }
  for (const planner::ScheduledRun& run : planner_->simulator().schedule(found_.plan)) {
    summary.repeated += run.requested_by != planner::kNone ? 1 : 0;
  }
  summary.is_backward_estimated = is_backward_estimated();
  summary.peak_operator =
      trace_->operators[planner_->simulator().run(found_.plan).peak_operator].name;
  if (!aim.max_overhead && room_ > 0) {
    constexpr std::int64_t kPart = 10;
    summary.more_bytes = room_ / kPart;
    if (const auto seconds = planner_->seconds_within(room_ + summary.more_bytes)) {
      summary.seconds_with_more = *seconds + corrections_.excess_seconds;
    }
  }
  return summary;
}

}  // namespace reprise::engine_internal
