// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explanation/outcome.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

namespace reprise::planner_internal {

using planner::kNone;
using planner::Operator;
using planner::OperatorId;
using planner::ScheduledRun;
using planner::Trace;
using planner::ValueId;

Outcome::Outcome(const planner::Simulator& simulator, const planner::Plan& plan)
    : simulator_(&simulator),
      plan_(plan),
      schedule_(simulator.schedule(plan)),
      producers_(simulator.trace().producers()),
      own_runs_(simulator.trace().operators.size()),
      reruns_(simulator.trace().operators.size()),
      reads_(simulator.trace().values.size()) {
  find_runs();
  const auto values = static_cast<ValueId>(trace().values.size());
  for (ValueId value = 0; value < values; ++value) {
    fates_.push_back(find_fate(value));
  }
}

void Outcome::find_runs() {
  for (std::size_t i = 0; i < schedule_.size(); ++i) {
    const ScheduledRun& run = schedule_[i];
    const auto position = static_cast<std::int32_t>(i);
    if (run.requested_by == kNone) {
      own_runs_[run.op] = position;
    } else {
      ++reruns_[run.op];
    }
    for (const ValueId value : trace().operators[run.op].reads) {
      reads_[value].push_back(position);
    }
  }
}

std::int32_t Outcome::released_in(ValueId value) const {
  const OperatorId released = trace().values[value].released;
  return released == kNone ? static_cast<std::int32_t>(schedule_.size()) - 1 : own_runs_[released];
}

Fate Outcome::find_fate(ValueId value) const {
  if (producers_[value] == kNone) {
    return Fate::kBeforeStep;
  }
  const bool is_of_backward = producers_[value] >= trace().backward_begin;
  const std::int32_t last_read = reads_[value].empty() ? kNone : reads_[value].back();
  if (is_of_backward || last_read <= released_in(value)) {
    const bool is_read_late =
        last_read != kNone && (schedule_[last_read].requested_by != kNone ||
                               schedule_[last_read].op >= trace().backward_begin);
    return is_read_late ? Fate::kHeld : Fate::kNotNeeded;
  }
  const planner::Choice choice = plan_.choices[value];
  if (!choice.is_retained()) {
    return Fate::kRecomputed;
  }
  return choice.store == kNone ? Fate::kRetained : Fate::kStored;
}

std::int64_t Outcome::bytes_of(Fate fate) const {
  std::int64_t bytes = 0;
  for (std::size_t value = 0; value < fates_.size(); ++value) {
    bytes += fates_[value] == fate ? trace().values[value].bytes : 0;
  }
  return bytes;
}

bool Outcome::is_there(ValueId value, OperatorId at) const {
  const OperatorId released = trace().values[value].released;
  return fates_[value] == Fate::kBeforeStep || fates_[value] == Fate::kRetained ||
         fates_[value] == Fate::kStored || released == kNone || released >= at;
}

Outcome::Recomputation Outcome::recomputation(ValueId value) const {
  const auto late =
      std::upper_bound(reads_[value].begin(), reads_[value].end(), released_in(value));
  const ScheduledRun* const read = late == reads_[value].end() ? nullptr : &schedule_[*late];
  const OperatorId at = read == nullptr               ? trace().backward_begin
                        : read->requested_by == kNone ? read->op
                                                      : read->requested_by;
  Recomputation result;
  std::vector<bool> is_collected(trace().operators.size());
  std::vector<ValueId> pending = {value};
  while (!pending.empty()) {
    const OperatorId op = producers_[pending.back()];
    pending.pop_back();
    if (op == kNone || is_collected[op]) {
      continue;
    }
    is_collected[op] = true;
    const Operator& each = trace().operators[op];
    ++result.operators;
    result.seconds += each.can_recompute ? each.seconds : std::numeric_limits<double>::infinity();
    std::copy_if(each.reads.begin(), each.reads.end(), std::back_inserter(pending),
                 [&](ValueId read_value) { return !is_there(read_value, at); });
  }
  return result;
}

std::string operator_label(const Trace& trace, OperatorId op) {
  return '#' + std::to_string(op) + ' ' + trace.operators[op].name;
}

std::string value_label(const Outcome& outcome, ValueId value) {
  const std::string& name = outcome.trace().values[value].name;
  if (outcome.producer(value) == kNone) {
    return name.empty() ? "value " + std::to_string(value) : name;
  }
  const std::string of = operator_label(outcome.trace(), outcome.producer(value));
  return name.empty() ? "result of " + of : name + ", result of " + of;
}

std::string fate_name(Fate fate) {
  switch (fate) {
    case Fate::kBeforeStep:
      return "exists before the step";
    case Fate::kNotNeeded:
      return "not needed";
    case Fate::kHeld:
      return "held by the program";
    case Fate::kRetained:
      return "retained";
    case Fate::kStored:
      return "stored";
    case Fate::kRecomputed:
      return "recomputed";
  }
  return "";
}

}  // namespace reprise::planner_internal
