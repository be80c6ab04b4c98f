// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/simulator.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/schedule/store_traffic.h"

namespace reprise::planner {
namespace {

using planner_internal::Absence;
using planner_internal::Copy;
using planner_internal::Execution;
using planner_internal::Run;
using planner_internal::StoreTraffic;
using planner_internal::TraceFacts;

// Bytes that arrive at the beginning of each run, and that leave at its end.
class MemoryChanges {
 public:
  explicit MemoryChanges(std::size_t runs) : arrive_(runs), leave_(runs) {}

  void add(std::int32_t first, std::int32_t last, std::int64_t bytes) {
    arrive_[std::max(first, 0)] += bytes;
    leave_[last] += bytes;
  }
  // The memory of a value that ends in `run` serves one that is made by it.
  void take_over(std::int32_t run, std::int64_t bytes) {
    arrive_[run] -= bytes;
    leave_[run] -= bytes;
  }
  void remove(const Absence& absence) {
    leave_[absence.away_after] += absence.bytes;
    arrive_[absence.back_at] += absence.bytes;
  }

  // Calls `visitor(run, bytes)` with the bytes that are there during each run.
  void for_each_run(const auto& visitor) const {
    std::int64_t live = 0;
    for (std::size_t run = 0; run < arrive_.size(); ++run) {
      live += arrive_[run];
      visitor(run, live);
      live -= leave_[run];
    }
  }

 private:
  std::vector<std::int64_t> arrive_;
  std::vector<std::int64_t> leave_;
};

}  // namespace

struct Simulator::Impl {
  Impl(const Trace& of, std::vector<StoreOption> to)
      : trace(of), stores(std::move(to)), facts(of) {}

  const Trace& trace;
  std::vector<StoreOption> stores;
  TraceFacts facts;
};

namespace {

void check_plan(const Plan& plan, const Trace& trace, std::size_t stores) {
  if (plan.choices.size() != trace.values.size()) {
    throw std::invalid_argument("plan: " + std::to_string(plan.choices.size()) +
                                " choices for a trace of " + std::to_string(trace.values.size()) +
                                " values");
  }
  for (const Choice& choice : plan.choices) {
    if (choice.store < kNone || choice.store >= static_cast<int>(stores)) {
      throw std::invalid_argument("plan: store " + std::to_string(choice.store) + " of " +
                                  std::to_string(stores));
    }
  }
}

// A step under one plan.
class SimulatedStep {
 public:
  // Throws std::invalid_argument if the plan is not one for this trace and these stores.
  SimulatedStep(const Trace& trace, const std::vector<StoreOption>& stores, const TraceFacts& facts,
                const Plan& plan)
      : trace_((check_plan(plan, trace, stores.size()), trace)),
        execution_(trace, facts, plan),
        traffic_(trace, stores, plan, execution_) {}

  bool is_valid() const { return execution_.is_valid() && traffic_.is_valid(); }
  const Execution& execution() const { return execution_; }
  const StoreTraffic& traffic() const { return traffic_; }

  // Of the copies that `counts(copy)` holds of.
  MemoryChanges changes(const auto& counts) const {
    MemoryChanges changes(execution_.runs().size());
    const std::vector<Copy>& copies = execution_.copies();
    for (const Copy& copy : copies) {
      if (!counts(copy)) {
        continue;
      }
      changes.add(copy.made, copy.last, bytes_of(copy));
      if (is_taken_over(copy) && counts(copies[copy.overwrites])) {
        changes.take_over(copy.made, bytes_of(copies[copy.overwrites]));
      }
    }
    for (const Absence& absence : traffic_.absences()) {
      if (counts(copies[absence.copy])) {
        changes.remove(absence);
      }
    }
    return changes;
  }

  std::int64_t bytes_of(const Copy& copy) const { return trace_.values[copy.value].bytes; }
  bool is_taken_over(const Copy& copy) const {
    return copy.overwrites != kNone && execution_.copies()[copy.overwrites].last == copy.made;
  }
  const Operator& operator_of(std::size_t run) const {
    return trace_.operators[execution_.runs()[run].op];
  }

  struct Peak {
    std::int64_t bytes = -1;
    std::size_t run = 0;
  };
  Peak peak() const {
    Peak peak;
    changes([](const Copy&) { return true; }).for_each_run([&](std::size_t run, std::int64_t live) {
      const std::int64_t bytes = live + operator_of(run).workspace_bytes;
      if (bytes > peak.bytes) {
        peak = {bytes, run};
      }
    });
    return peak;
  }

 private:
  const Trace& trace_;
  Execution execution_;
  StoreTraffic traffic_;
};

}  // namespace

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
  const auto is_recomputed = [](const Copy& copy) { return copy.released == kNone; };
  const auto is_retained = [&](const Copy& copy) {
    return !is_recomputed(copy) && copy.made != kNone && copy.made < trace().backward_begin &&
           copy.first_use_in_backward != kNone;
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
