// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/simulator.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/schedule/simulated_step.h"

namespace reprise::planner {

using planner_internal::Absence;
using planner_internal::Copy;
using planner_internal::Run;
using planner_internal::SimulatedStep;
using planner_internal::TraceFacts;

struct Simulator::Impl {
  Impl(const Trace& of, std::vector<StoreOption> to)
      : trace(of), stores(std::move(to)), facts(of) {}

  const Trace& trace;
  std::vector<StoreOption> stores;
  TraceFacts facts;
};

Simulator::Simulator(const Trace& trace, std::vector<StoreOption> stores)
    : impl_((trace.validate(), std::make_unique<const Impl>(trace, std::move(stores)))) {}
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;
Simulator::~Simulator() = default;

const Trace& Simulator::trace() const { return impl_->trace; }
const std::vector<StoreOption>& Simulator::stores() const { return impl_->stores; }

Simulation Simulator::run(const Plan& plan) const {
  const SimulatedStep step(trace(), stores(), impl_->facts, plan);
  Simulation result;
  result.is_valid = step.is_valid();
  if (!result.is_valid || step.execution().runs().empty()) {
    return result;
  }
  for (const Run& run : step.execution().runs()) {
    const double seconds = trace().operators[run.op].seconds;
    result.seconds += seconds;
    result.recompute_seconds += run.requested_by == kNone ? 0.0 : seconds;
  }
  result.store_seconds = step.traffic().seconds();
  result.seconds += result.store_seconds;
  result.stored_bytes = step.traffic().stored_bytes();
  const SimulatedStep::Peak peak = step.peak();
  const Run& run = step.execution().runs()[peak.run];
  result.peak_bytes = peak.bytes;
  result.peak_operator = run.op;
  result.peak_during = run.requested_by == kNone ? run.op : run.requested_by;
  return result;
}

std::vector<ScheduledRun> Simulator::schedule(const Plan& plan) const {
  const SimulatedStep step(trace(), stores(), impl_->facts, plan);
  const std::vector<Run>& runs = step.execution().runs();
  if (!step.is_valid() || runs.empty()) {
    return {};
  }
  std::vector<ScheduledRun> schedule(runs.size());
  for (std::size_t run = 0; run < runs.size(); ++run) {
    schedule[run].op = runs[run].op;
    schedule[run].requested_by = runs[run].requested_by;
    schedule[run].workspace_bytes = step.operator_of(run).workspace_bytes;
  }
  const auto is_recomputed = [&](const Copy& copy) {
    return step.class_of(copy) == MemoryClass::kRecomputed;
  };
  const auto is_retained = [&](const Copy& copy) {
    return step.class_of(copy) == MemoryClass::kRetained;
  };
  step.changes([](const Copy&) { return true; })
      .for_each_run([&](std::size_t run, std::int64_t live) {
        schedule[run].live_bytes = live + schedule[run].workspace_bytes;
      });
  step.changes(is_retained).for_each_run([&](std::size_t run, std::int64_t live) {
    schedule[run].retained_bytes = live;
  });
  step.changes(is_recomputed).for_each_run([&](std::size_t run, std::int64_t live) {
    schedule[run].recomputed_bytes = live;
  });
  return schedule;
}

std::vector<Residence> Simulator::residences(const Plan& plan) const {
  const SimulatedStep step(trace(), stores(), impl_->facts, plan);
  return step.is_valid() ? step.residences() : std::vector<Residence>();
}

std::vector<Fetch> Simulator::fetches(const Plan& plan) const {
  const SimulatedStep step(trace(), stores(), impl_->facts, plan);
  std::vector<Fetch> fetches;
  if (!step.is_valid()) {
    return fetches;
  }
  const std::vector<Run>& runs = step.execution().runs();
  for (const Absence& absence : step.traffic().absences()) {
    const ValueId value = step.execution().copies()[absence.copy].value;
    if (stores()[plan.choices[value].store].is_overlapped) {
      const Run& run = runs[absence.back_at];
      const OperatorId op = run.requested_by == kNone ? run.op : run.requested_by;
      fetches.push_back({value, std::max(op, trace().backward_begin)});
    }
  }
  std::stable_sort(fetches.begin(), fetches.end(),
                   [](const Fetch& a, const Fetch& b) { return a.before < b.before; });
  return fetches;
}

Plan Simulator::reduced(const Plan& plan) const {
  const SimulatedStep step(trace(), stores(), impl_->facts, plan);
  if (!step.is_valid()) {
    return plan;
  }
  std::vector<bool> is_used(plan.choices.size());
  for (const Copy& copy : step.execution().copies()) {
    const bool is_of_program = copy.released != kNone;
    is_used[copy.value] =
        is_used[copy.value] || (is_of_program && copy.first_use_in_backward != kNone);
  }
  Plan reduced = plan;
  for (std::size_t value = 0; value < is_used.size(); ++value) {
    if (plan.choices[value].is_retained() && !is_used[value]) {
      reduced.choices[value] = Choice::recompute();
    }
  }
  return reduced;
}

std::vector<ValueId> Simulator::live_at_peak(const Plan& plan) const {
  const SimulatedStep step(trace(), stores(), impl_->facts, plan);
  std::vector<ValueId> values;
  if (!step.is_valid() || step.execution().runs().empty()) {
    return values;
  }
  const auto run = static_cast<std::int32_t>(step.peak().run);
  std::vector<bool> is_away(step.execution().copies().size());
  for (const Absence& absence : step.traffic().absences()) {
    is_away[absence.copy] = absence.away_after < run && run < absence.back_at;
  }
  for (const Copy& copy : step.execution().copies()) {
    if (copy.made == run && step.is_taken_over(copy)) {
      is_away[copy.overwrites] = true;  // its memory counts as that of the new value
    }
  }
  for (std::size_t i = 0; i < step.execution().copies().size(); ++i) {
    const Copy& copy = step.execution().copies()[i];
    if (copy.made <= run && run <= copy.last && !is_away[i]) {
      values.push_back(copy.value);
    }
  }
  std::stable_sort(values.begin(), values.end(), [this](ValueId a, ValueId b) {
    return trace().values[a].bytes > trace().values[b].bytes;
  });
  return values;
}

}  // namespace reprise::planner
