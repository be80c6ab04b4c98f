// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/reruns.h"

#include <cstddef>
#include <limits>

namespace reprise::planner_internal {

using planner::Operator;

namespace {

// What takes more operators than this to make is dear, however dear it is.
constexpr int kMostVisited = 300;

}  // namespace

Reruns::Reruns(const Problem& problem, const Plan& plan)
    : problem_(problem),
      is_retained_(problem.trace.values.size()),
      needs_(problem.trace.values.size()),
      missing_results_(problem.trace.operators.size()),
      visited_in_(problem.trace.operators.size()) {
  for (std::size_t value = 0; value < is_retained_.size(); ++value) {
    is_retained_[value] = plan.choices[value].is_retained();
  }
  for (std::size_t value = 0; value < is_retained_.size(); ++value) {
    if (problem.first_use[value] != kNone) {
      pending_.push_back({static_cast<ValueId>(value), true});
    }
  }
  settle();
}

double Reruns::seconds() const {
  return impossible_ > 0 ? std::numeric_limits<double>::infinity() : seconds_;
}

void Reruns::settle() {
  while (!pending_.empty()) {
    const auto [value, is_needed] = pending_.back();
    pending_.pop_back();
    std::int32_t& needs = needs_[value];
    needs += is_needed ? 1 : -1;
    const bool has_changed = needs == (is_needed ? 1 : 0);
    if (has_changed && !is_retained_[value]) {
      need_producer(value, is_needed);
    }
  }
}

void Reruns::need_producer(ValueId value, bool is_needed) {
  const OperatorId op = problem_.facts.producer[value];
  std::int32_t& missing = missing_results_[op];
  missing += is_needed ? 1 : -1;
  if (missing != (is_needed ? 1 : 0)) {
    return;
  }
  const Operator& each = problem_.trace.operators[op];
  seconds_ += is_needed ? each.seconds : -each.seconds;
  impossible_ += each.can_recompute ? 0 : is_needed ? 1 : -1;
  for (const ValueId read : each.reads) {
    if (problem_.is_planned_at(read, problem_.trace.backward_begin)) {
      pending_.push_back({read, is_needed});
    }
  }
}

void Reruns::set_retained(ValueId value, bool is_retained) {
  if (is_retained_[value] == is_retained) {
    return;
  }
  is_retained_[value] = is_retained;
  if (needs_[value] > 0) {
    need_producer(value, !is_retained);
    settle();
  }
}

double Reruns::change_if_toggled(ValueId value) {
  const bool is_retained = is_retained_[value];
  const double before = seconds_;
  const double infinite_before = seconds();
  set_retained(value, !is_retained);
  const double after = seconds();
  set_retained(value, is_retained);
  seconds_ = before;
  return after == infinite_before ? 0 : after - infinite_before;
}

double Reruns::seconds_to_make(ValueId value) {
  ++visit_;
  double sum = 0;
  std::vector<ValueId> pending(1, value);
  for (int visited = 0; !pending.empty() && visited < kMostVisited;) {
    const OperatorId op = problem_.facts.producer[pending.back()];
    pending.pop_back();
    if (visited_in_[op] == visit_) {
      continue;
    }
    visited_in_[op] = visit_;
    ++visited;
    sum += problem_.trace.operators[op].seconds;
    for (const ValueId read : problem_.trace.operators[op].reads) {
      if (!is_retained_[read] && problem_.is_planned_at(read, problem_.trace.backward_begin)) {
        pending.push_back(read);
      }
    }
  }
  return sum;
}

}  // namespace reprise::planner_internal
