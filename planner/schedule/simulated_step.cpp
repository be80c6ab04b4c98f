// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/schedule/simulated_step.h"

#include <stdexcept>
#include <string>

namespace reprise::planner_internal {

using planner::Choice;
using planner::MemoryClass;
using planner::Residence;
using planner::StoreOption;

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

}  // namespace

SimulatedStep::SimulatedStep(const Trace& trace, const std::vector<StoreOption>& stores,
                             const TraceFacts& facts, const Plan& plan)
    : trace_((check_plan(plan, trace, stores.size()), trace)),
      execution_(trace, facts, plan),
      traffic_(trace, stores, plan, execution_) {}

MemoryClass SimulatedStep::class_of(const Copy& copy) const {
  if (copy.released == kNone) {
    return MemoryClass::kRecomputed;
  }
  if (copy.made == kNone) {
    return MemoryClass::kBeforeStep;
  }
  if (copy.made >= trace_.backward_begin) {
    return MemoryClass::kGradients;
  }
  return copy.first_use_in_backward == kNone ? MemoryClass::kOther : MemoryClass::kRetained;
}

SimulatedStep::Peak SimulatedStep::peak() const {
  Peak peak;
  changes([](const Copy&) { return true; }).for_each_run([&](std::size_t run, std::int64_t live) {
    const std::int64_t bytes = live + operator_of(run).workspace_bytes;
    if (bytes > peak.bytes) {
      peak = {bytes, run};
    }
  });
  return peak;
}

std::vector<Residence> SimulatedStep::residences() const {
  std::vector<Residence> residences;
  const std::vector<Copy>& copies = execution_.copies();
  std::vector<const Absence*> absences(copies.size());  // a copy leaves at most once
  for (const Absence& absence : traffic_.absences()) {
    absences[absence.copy] = &absence;
  }
  std::vector<bool> is_overwritten(copies.size());
  for (const Copy& copy : copies) {
    if (is_taken_over(copy)) {
      is_overwritten[copy.overwrites] = true;  // its memory counts as that of the new value
    }
  }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Copy& copy = copies[i];
    const auto add = [&](std::int32_t first, std::int32_t last, std::int64_t bytes) {
      if (first <= last && bytes > 0) {
        residences.push_back({copy.value, class_of(copy), first, last, bytes});
      }
    };
    const std::int32_t first = std::max(copy.made, 0);
    const std::int32_t last = copy.last - (is_overwritten[i] ? 1 : 0);
    const std::int64_t bytes = bytes_of(copy);
    if (const Absence* const absence = absences[i]) {
      add(first, absence->away_after, bytes);
      add(absence->away_after + 1, absence->back_at - 1, bytes - absence->bytes);
      add(absence->back_at, last, bytes);
    } else {
      add(first, last, bytes);
    }
  }
  return residences;
}

}  // namespace reprise::planner_internal
