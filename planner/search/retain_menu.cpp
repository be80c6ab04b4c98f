// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/retain_menu.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace reprise::planner_internal {

using planner::Choice;
using planner::StoreOption;

bool RetainMenu::can_put(ValueId value, int store) const {
  const StoreOption& option = problem_.simulator.stores()[store];
  const std::int64_t bytes = problem_.trace.values[value].bytes;
  return bytes > 0 && option.takes(value, bytes);
}

double RetainMenu::copy_seconds(ValueId value, int store, double link_price) const {
  const StoreOption& option = problem_.simulator.stores()[store];
  const auto bytes = static_cast<double>(problem_.trace.values[value].bytes);
  const double seconds = 2 * option.latency_seconds +
                         bytes * (option.put_seconds_per_byte + option.get_seconds_per_byte);
  return option.is_overlapped ? seconds * link_price : seconds;
}

PricedWay RetainMenu::cheapest(ValueId value, MemoryPrice price, double link_price) const {
  PricedWay best{.price = price.away + price.back};
  const std::vector<StoreOption>& stores = problem_.simulator.stores();
  for (int store = 0; store < static_cast<int>(stores.size()); ++store) {
    if (can_put(value, store)) {
      const double in_store = stores[store].fraction_of(value) * price.away + price.back +
                              copy_seconds(value, store, link_price);
      best = in_store < best.price ? PricedWay{store, in_store} : best;
    }
  }
  return best;
}

Plan RetainMenu::plan_of(const Cut& cut, const std::vector<PricedWay>& ways) const {
  Plan plan = problem_.smallest_plan();
  for (const ValueId value : problem_.candidates) {
    if (cut.is_retained[value]) {
      const int store = ways[value].store;
      plan.choices[value] = store == kNone ? Choice::retain() : Choice::put(store);
    }
  }
  respect_capacities(plan);
  return plan;
}

// Values for which a store has no room stay in memory, or are made again: the ones that this is
// cheapest for.
void RetainMenu::respect_capacities(Plan& plan) const {
  const std::vector<StoreOption>& stores = problem_.simulator.stores();
  for (int store = 0; store < static_cast<int>(stores.size()); ++store) {
    std::vector<ValueId> stored;
    std::int64_t bytes = 0;
    for (const ValueId value : problem_.candidates) {
      if (plan.choices[value] == Choice::put(store)) {
        stored.push_back(value);
        bytes += problem_.trace.values[value].bytes;
      }
    }
    if (bytes <= stores[store].capacity_bytes) {
      continue;
    }
    Reruns reruns(problem_, plan);
    std::vector<double> costs(problem_.trace.values.size());
    for (const ValueId value : stored) {
      costs[value] =
          reruns.change_if_toggled(value) / static_cast<double>(problem_.trace.values[value].bytes);
    }
    std::stable_sort(stored.begin(), stored.end(),
                     [&](ValueId a, ValueId b) { return costs[a] < costs[b]; });
    for (std::size_t i = 0; bytes > stores[store].capacity_bytes; ++i) {
      bytes -= problem_.trace.values[stored[i]].bytes;
      plan.choices[stored[i]] = Choice::recompute();
    }
  }
}

}  // namespace reprise::planner_internal
