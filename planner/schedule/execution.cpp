// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/schedule/execution.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>

namespace reprise::planner_internal {

using planner::Choice;
using planner::Operator;
using planner::Value;

TraceFacts::TraceFacts(const Trace& trace)
    : producer(trace.producers()), overwriter(trace.values.size(), kNone) {
  for (std::size_t value = 0; value < trace.values.size(); ++value) {
    const Value& each = trace.values[value];
    overwrites.push_back(each.overwrites);
    held_until.push_back(each.released == kNone ? std::numeric_limits<OperatorId>::max()
                                                : each.released);
    if (each.overwrites != kNone) {
      overwriter[each.overwrites] = static_cast<ValueId>(value);
    }
  }
  for (const Operator& op : trace.operators) {
    first_read.push_back(all_reads.size());
    first_result.push_back(all_results.size());
    all_reads.insert(all_reads.end(), op.reads.begin(), op.reads.end());
    all_results.insert(all_results.end(), op.results.begin(), op.results.end());
  }
  first_read.push_back(all_reads.size());
  first_result.push_back(all_results.size());
}

Execution::Execution(const Trace& trace, const TraceFacts& facts, const Plan& plan)
    : trace_(trace),
      facts_(facts),
      states_(trace.values.size()),
      collected_in_(trace.operators.size(), kNone) {
  runs_.reserve(trace.operators.size() * 3 / 2);
  copies_.reserve(trace.values.size() * 3 / 2);
  own_runs_.reserve(trace.operators.size());
  add_values(plan);
  for (now_ = 0; now_ < static_cast<OperatorId>(trace.operators.size()) && is_valid_; ++now_) {
    if (now_ >= trace.backward_begin) {
      ++request_;  // what one operator reads is there until it has run
      for (const ValueId value : facts.reads(now_)) {
        request(value, now_);
      }
    }
    run(now_, kNone);
  }
  if (is_valid_) {
    for (Copy& copy : copies_) {
      extend_to_release(copy);
    }
  }
}

// Those that exist before the step are there from the beginning.
void Execution::add_values(const Plan& plan) {
  for (std::size_t value = 0; value < states_.size(); ++value) {
    State& state = states_[value];
    state.held_until = facts_.held_until[value];
    const std::uint8_t first = trace_.values[value].is_evicted ? 1 : 0;
    state.retained_from = std::max(plan.choices[value].retained_from, first);
    if (facts_.producer[value] == kNone) {
      state.copy = static_cast<CopyId>(copies_.size());
      state.is_retained = true;
      copies_.push_back({.value = static_cast<ValueId>(value)});
    }
  }
}

// The program holds what it has made itself, or had before the step.
void Execution::extend_to_release(Copy& copy) const {
  if (copy.made != kNone && runs_[copy.made].requested_by != kNone) {
    return;
  }
  const OperatorId until = facts_.held_until[copy.value];
  const bool is_released = until < static_cast<OperatorId>(own_runs_.size());
  copy.released = is_released ? own_runs_[until] : static_cast<RunId>(runs_.size()) - 1;
  copy.last = std::max(copy.last, copy.released);
}

void Execution::run(OperatorId op, OperatorId requested_by) {
  for (const ValueId value : facts_.reads(op)) {
    use(value);
  }
  const std::span<const ValueId> results = facts_.results(op);
  const auto run = static_cast<RunId>(runs_.size());
  runs_.push_back({.op = op,
                   .requested_by = requested_by,
                   .first_copy = static_cast<CopyId>(copies_.size()),
                   .end_copy = static_cast<CopyId>(copies_.size() + results.size())});
  if (requested_by == kNone) {
    own_runs_.push_back(run);
  }
  for (const ValueId value : results) {
    make(value, run, requested_by != kNone);
  }
}

void Execution::make(ValueId value, RunId run, bool is_recomputed) {
  const ValueId overwritten = facts_.overwrites[value];
  const auto copy = static_cast<CopyId>(copies_.size());
  copies_.push_back({.value = value,
                     .made = run,
                     .last = run,
                     .overwrites = overwritten == kNone ? kNone : states_[overwritten].copy});
  if (is_recomputed && is_there(value)) {
    return;  // made beside another result, and not needed
  }
  State& state = states_[value];
  state.copy = copy;
  if (is_recomputed) {
    state.made_in = request_;
    state.times_recomputed += state.times_recomputed < Choice::kNever - 1 ? 1 : 0;
  }
  state.is_retained = state.times_recomputed >= state.retained_from;
}

void Execution::use(ValueId value) {
  Copy& copy = copies_[states_[value].copy];
  const auto run = static_cast<RunId>(runs_.size());  // the one that is about to be added
  copy.last = std::max(copy.last, run);
  if (now_ >= trace_.backward_begin && copy.first_use_in_backward == kNone) {
    copy.first_use_in_backward = run;
  }
}

void Execution::request(ValueId value, OperatorId requested_by) {
  if (is_there(value)) {
    return;
  }
  collected_.clear();
  collect(value);
  std::sort(collected_.begin(), collected_.end());
  for (const OperatorId op : collected_) {
    run(op, requested_by);
  }
}

void Execution::collect(ValueId value) {
  pending_.assign(1, value);
  while (!pending_.empty()) {
    const ValueId next = pending_.back();
    pending_.pop_back();
    if (is_there(next)) {
      continue;
    }
    const OperatorId op = facts_.producer[next];
    if (op == kNone || op >= trace_.backward_begin || !trace_.operators[op].can_recompute) {
      is_valid_ = false;
      return;
    }
    if (collected_in_[op] == request_) {
      continue;
    }
    collected_in_[op] = request_;
    collected_.push_back(op);
    const std::span<const ValueId> reads = facts_.reads(op);
    pending_.insert(pending_.end(), reads.begin(), reads.end());
  }
}

}  // namespace reprise::planner_internal
