// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/problem.h"

#include <algorithm>
#include <cstddef>

namespace reprise::planner_internal {

using planner::Choice;
using planner::Operator;

Problem::Problem(const planner::Simulator& simulator)
    : simulator(simulator),
      trace(simulator.trace()),
      facts(trace),
      first_use(trace.values.size(), kNone),
      last_use(trace.values.size(), kNone),
      first_need(trace.values.size(), kNone),
      readers(trace.values.size()),
      must_retain(trace.values.size()),
      is_candidate(trace.values.size()) {
  find_uses();
  find_candidates();
}

bool Problem::is_planned_at(ValueId value, OperatorId op) const {
  const OperatorId released = trace.values[value].released;
  return is_of_forward(value) && released != kNone && released < op;
}

void Problem::find_uses() {
  for (auto op = static_cast<OperatorId>(trace.operators.size()) - 1; op >= 0; --op) {
    for (const ValueId value : trace.operators[op].reads) {
      if (op < trace.backward_begin) {
        readers[value].push_back(op);
      } else if (is_planned_at(value, op)) {
        first_use[value] = op;
        last_use[value] = std::max(last_use[value], op);
      }
    }
  }
  first_need = first_use;
  for (OperatorId op = trace.backward_begin - 1; op >= 0; --op) {
    for (const ValueId result : trace.operators[op].results) {
      for (const OperatorId reader :
           first_use[result] == kNone ? readers[result] : std::vector<OperatorId>()) {
        for (const ValueId made : trace.operators[reader].results) {
          const OperatorId need = first_need[made];
          OperatorId& first = first_need[result];
          first = first == kNone ? need : need == kNone ? first : std::min(first, need);
        }
      }
    }
  }
}

void Problem::find_candidates() {
  const std::size_t values = trace.values.size();
  std::vector<bool> is_needed(values);
  std::vector<ValueId> pending;
  const auto need = [&](ValueId value) {
    if (!is_needed[value] &&
        is_planned_at(value, static_cast<OperatorId>(trace.operators.size()))) {
      is_needed[value] = true;
      pending.push_back(value);
    }
  };
  for (std::size_t value = 0; value < values; ++value) {
    if (first_use[value] != kNone) {
      need(static_cast<ValueId>(value));
    }
  }
  while (!pending.empty()) {
    const Operator& each = trace.operators[facts.producer[pending.back()]];
    pending.pop_back();
    if (each.can_recompute) {
      std::for_each(each.reads.begin(), each.reads.end(), need);
    }
  }
  for (std::size_t i = 0; i < values; ++i) {
    const auto value = static_cast<ValueId>(i);
    if (facts.producer[i] == kNone && trace.values[i].released == kNone) {
      fixed_bytes += trace.values[i].bytes;
    }
    if (!is_of_forward(value) || facts.overwriter[value] != kNone) {
      continue;
    }
    must_retain[value] =
        !trace.operators[facts.producer[value]].can_recompute || trace.values[value].bytes == 0;
    is_candidate[value] = is_needed[value] && !must_retain[value];
    if (is_candidate[value]) {
      candidates.push_back(value);
    }
  }
}

void Problem::make_legal(Plan& plan) const {
  for (std::size_t value = 0; value < plan.choices.size(); ++value) {
    Choice& choice = plan.choices[value];
    if (must_retain[value] && !choice.is_retained()) {
      choice = Choice::retain();
    } else if (facts.overwriter[value] != kNone && choice.is_retained()) {
      choice = Choice::recompute();
    }
  }
}

Plan Problem::smallest_plan() const {
  Plan plan(trace);
  make_legal(plan);
  return plan;
}

Plan Problem::largest_plan() const {
  Plan plan = smallest_plan();
  for (const ValueId value : candidates) {
    if (first_use[value] != kNone) {
      plan.choices[value] = Choice::retain();
    }
  }
  return plan;
}

}  // namespace reprise::planner_internal
