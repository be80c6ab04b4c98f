// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/budget_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>

#include "reprise/policies/budget/knapsack.h"

namespace reprise::policies_internal {
namespace {

using Indices = std::vector<std::uint32_t>;

// The results, each before those that are made of it.
Indices in_order_of_completion(const RunRecord& record) {
  Indices order(record.results.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return record.results[a].last_call < record.results[b].last_call;
  });
  return order;
}

std::vector<bool> find_needed(const RunRecord& record, const Indices& order) {
  std::vector<bool> is_needed(record.results.size());
  std::for_each(order.rbegin(), order.rend(), [&](std::uint32_t index) {
    const RecordedResult& result = record.results[index];
    is_needed[index] =
        result.is_saved || std::any_of(result.readers.begin(), result.readers.end(),
                                       [&](std::uint32_t reader) { return is_needed[reader]; });
  });
  return is_needed;
}

// Returns the result that is better saved in this one's stead.
std::optional<std::uint32_t> successor_of(const RecordedResult& result, const RunRecord& record) {
  if (result.is_saved || result.readers.size() != 1) {
    return std::nullopt;
  }
  const RecordedResult& reader = record.results[result.readers[0]];
  const bool is_no_loss = reader.may_be_kept() && reader.bytes <= result.bytes;
  return is_no_loss || !result.may_be_kept() ? std::optional(result.readers[0]) : std::nullopt;
}

std::int64_t limit_of(const BudgetPolicyOptions& options, std::int64_t useful_bytes) {
  return options.saved_bytes ? *options.saved_bytes
                             : static_cast<std::int64_t>(*options.saved_fraction *
                                                         static_cast<double>(useful_bytes));
}

}  // namespace

std::vector<double> worth_of_results(const RunRecord& record) {
  std::vector<double> worth(record.results.size());
  for (const RecordedCall& call : record.calls) {
    worth[call.result] += call.seconds;
  }
  const Indices order = in_order_of_completion(record);
  const std::vector<bool> is_needed = find_needed(record, order);
  for (const std::uint32_t index : order) {
    const RecordedResult& result = record.results[index];
    const bool is_repeated = !is_needed[index] || result.is_communicated;
    if (const auto successor = successor_of(result, record); successor && !is_repeated) {
      worth[*successor] += worth[index];
      worth[index] = 0;
    } else if (is_repeated || !result.may_be_kept()) {
      worth[index] = 0;
    }
  }
  return worth;
}

BudgetPlan plan_run(const RunRecord& record, const BudgetPolicyOptions& options) {
  BudgetPlan plan;
  plan.saves.resize(record.calls.size());
  const std::vector<double> worth = worth_of_results(record);
  std::vector<Weighted> items(record.results.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i] = {record.results[i].bytes, worth[i]};
    plan.result_bytes += items[i].bytes;
    plan.useful_bytes += worth[i] > 0 ? items[i].bytes : 0;
    plan.seconds += worth[i];
  }
  plan.limit_bytes = limit_of(options, plan.useful_bytes);
  const std::vector<bool> chosen = most_seconds_within(items, plan.limit_bytes);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (chosen[i]) {
      plan.saves[record.results[i].last_call] = true;
      plan.saved_bytes += items[i].bytes;
      plan.saved_seconds += items[i].seconds;
    }
  }
  return plan;
}

}  // namespace reprise::policies_internal
