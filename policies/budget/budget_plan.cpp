// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/budget_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "reprise/planner/cut/retained_set.h"

namespace reprise::policies_internal {
namespace {

using planner_internal::RetainedSet;
using planner_internal::RetainedSets;

// Adds bytes and times. Returns the number of each operator's call, or -1. All ranks repeat
// transfers alike: times, which differ between ranks, do not decide about them.
std::vector<std::ptrdiff_t> add_calls(RegionTrace& region, const std::vector<RecordedCall>& calls) {
  std::vector<std::ptrdiff_t> numbers;
  for (std::size_t i = 0; i < region.ordinals.size(); ++i) {
    const auto call = std::lower_bound(
        calls.begin(), calls.end(), region.ordinals[i],
        [](const RecordedCall& each, std::int64_t ordinal) { return each.ordinal < ordinal; });
    const bool is_asked = call != calls.end() && call->ordinal == region.ordinals[i];
    planner::Operator& op = region.trace.operators[i];
    const bool is_transfer = !std::exchange(op.can_recompute, true);
    op.seconds = is_asked && !is_transfer ? call->seconds : 0;
    region.trace.values[i].bytes = is_asked ? call->bytes : 0;
    region.may_save[i] = region.may_save[i] && is_asked && !is_transfer;
    numbers.push_back(is_asked ? call - calls.begin() : -1);
  }
  return numbers;
}

std::int64_t limit_of(const BudgetPolicyOptions& options, std::int64_t useful_bytes) {
  return options.saved_bytes ? *options.saved_bytes
                             : static_cast<std::int64_t>(*options.saved_fraction *
                                                         static_cast<double>(useful_bytes));
}

}  // namespace

BudgetPlan plan_run(const std::vector<RecordedCall>& calls, RegionTrace region,
                    const BudgetPolicyOptions& options) {
  const std::vector<std::ptrdiff_t> call_of = add_calls(region, calls);
  const RetainedSets sets(region.trace, std::move(region.may_save));
  const std::int64_t limit = limit_of(options, sets.all().bytes);
  const RetainedSet saved = sets.within(limit);
  const double all_seconds = sets.none().seconds;
  BudgetPlan plan{.saves = std::vector<bool>(calls.size()),
                  .figures = {.operators = static_cast<std::int64_t>(calls.size()),
                              .useful_bytes = sets.all().bytes,
                              .limit_bytes = limit,
                              .saved_bytes = saved.bytes,
                              .seconds = all_seconds - sets.all().seconds,
                              .saved_seconds = all_seconds - saved.seconds}};
  for (std::size_t i = 0; i < call_of.size(); ++i) {
    const planner::Value& value = region.trace.values[i];
    plan.figures.result_bytes += value.overwrites == planner::kNone ? value.bytes : 0;
    if (saved.is_retained[i]) {
      plan.saves[static_cast<std::size_t>(call_of[i])] = true;
    }
  }
  return plan;
}

}  // namespace reprise::policies_internal
