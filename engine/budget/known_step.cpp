// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/known_step.h"

#include <algorithm>
#include <cstddef>
#include <limits>
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
    : recordings_(recorded.is_final() ? 1 : 0), backward_(recorded.backward) {
  replace(std::move(recorded), rates);
}

planner::Trace KnownStep::trace() const { return without_evictions(*trace_); }

void KnownStep::replace(RecordedStep recorded, const StoreRates& rates) {
  const bool is_alike = trace_ != nullptr && are_alike(*trace_, recorded.trace);
  if (!is_alike) {
    excess_bytes_ = 0;
    held_error_ = 0;
    own_rise_ = std::numeric_limits<std::int64_t>::max();
    least_excess_bytes_ = std::numeric_limits<std::int64_t>::min() / 2;
  }
  excess_seconds_ = 0;
  timed_steps_ = 0;
  recorded.script.number = script_ == nullptr ? recorded.script.number : script_->number;
  script_ = std::make_shared<const StepScript>(std::move(recorded.script));
  planner_.reset();
  trace_ = std::make_unique<planner::Trace>(std::move(recorded.trace));
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

// What steps that end in between leave behind, as gradients of parameters, raises more than the
// step does alone.
std::int64_t KnownStep::rise_by_others(const MeasuredStep& measured) {
  if (!measured.rise_bytes) {
    return 0;
  }
  own_rise_ = std::min(own_rise_, *measured.rise_bytes);
  return *measured.rise_bytes - own_rise_;
}

void KnownStep::calibrate(const StepPlan& plan, const MeasuredStep& measured) {
  const std::int64_t rise = rise_by_others(measured);
  note_in_flight(measured.in_flight, measured.bytes_before + rise);
  if (measured.held_bytes && plan_ != nullptr && plan_->choices == plan.choices) {
    held_error_ = *measured.held_bytes - simulated_held_;
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
    excess_bytes_ += measured.shortage_bytes;
    least_excess_bytes_ = excess_bytes_;
  } else if (is_as_planned) {
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
  summary.is_backward_estimated = is_backward_estimated();
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
