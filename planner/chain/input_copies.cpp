// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/input_copies.h"

#include <limits>

namespace reprise::planner_internal {

InputCopies::InputCopies(const planner::Simulator& simulator, const RegionChain& chain, int store)
    : is_overlapped(simulator.stores()[store].is_overlapped) {
  const planner::StoreOption& option = simulator.stores()[store];
  const Trace& trace = simulator.trace();
  for (const Region& region : chain.regions) {
    double put = 0;
    double get = 0;
    double total = 0;
    double retained = 0;
    for (const ValueId value : region.inputs) {
      const std::int64_t size = trace.values[value].bytes;
      const auto whole = static_cast<double>(size);
      if (size > 0) {
        put += option.takes(value, size)
                   ? option.latency_seconds + option.put_seconds_per_byte * whole
                   : std::numeric_limits<double>::infinity();
        get += option.latency_seconds + option.get_seconds_per_byte * whole;
        total += whole;
        retained += option.fraction_of(value) * whole;
      }
    }
    double forward = 0;
    for (OperatorId op = region.begin; op < region.end; ++op) {
      forward += trace.operators[op].seconds;
    }
    put_seconds.push_back(put);
    get_seconds.push_back(get);
    bytes.push_back(total);
    retained_bytes.push_back(retained);
    forward_seconds.push_back(forward);
  }
}

void put_inputs(Plan& plan, const Trace& trace, const Region& region, int store) {
  for (const ValueId value : region.inputs) {
    if (trace.values[value].bytes > 0) {
      plan.choices[value] = planner::Choice::put(store);
    }
  }
}

}  // namespace reprise::planner_internal
