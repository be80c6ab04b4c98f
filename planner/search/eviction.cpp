// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/eviction.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace reprise::planner_internal {

using planner::Choice;
using planner::Operator;
using planner::Simulation;

namespace {

bool contains(const std::vector<ValueId>& values, ValueId value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::vector<Relief> Eviction::reliefs(const Plan& plan, const Simulation& simulation,
                                      Reruns& reruns) const {
  std::vector<Relief> reliefs;
  if (simulation.peak_operator == kNone) {  // a step without operators
    return reliefs;
  }
  const Operator& at_peak = problem_.trace.operators[simulation.peak_operator];
  for (const ValueId value : problem_.simulator.live_at_peak(plan)) {
    if (problem_.is_candidate[value] && problem_.is_planned_at(value, simulation.peak_during) &&
        !contains(at_peak.reads, value) && !contains(at_peak.results, value)) {
      add_reliefs(value, plan, simulation, reruns, reliefs);
    }
  }
  std::stable_sort(reliefs.begin(), reliefs.end(),
                   [](const Relief& a, const Relief& b) { return a.score < b.score; });
  return reliefs;
}

void Eviction::add_reliefs(ValueId value, const Plan& plan, const Simulation& simulation,
                           Reruns& reruns, std::vector<Relief>& reliefs) const {
  const Choice choice = plan.choices[value];
  const OperatorId first_use = problem_.first_use[value];
  const auto bytes = static_cast<double>(problem_.trace.values[value].bytes);
  const bool is_used_before = first_use != kNone && first_use <= simulation.peak_during &&
                              problem_.last_use[value] > simulation.peak_during;
  const auto add = [&](Choice to, double seconds, double freed) {
    if (to != choice && freed > 0) {
      reliefs.push_back({value, to, seconds, seconds / freed});
    }
  };
  if (!choice.is_retained()) {
    const Choice never{.retained_from = Choice::kNever};
    add(never, reruns.seconds_to_make(value), bytes);
    return;
  }
  if (is_used_before) {
    add({.retained_from = Choice::kNever}, reruns.seconds_to_make(value), bytes);
    return;
  }
  add(Choice::recompute(), reruns.change_if_toggled(value), bytes);
  if (choice.store != kNone) {
    return;
  }
  const auto& stores = problem_.simulator.stores();
  for (int store = 0; store < static_cast<int>(stores.size()); ++store) {
    const bool has_room = simulation.stored_bytes[store] + problem_.trace.values[value].bytes <=
                          stores[store].capacity_bytes;
    if (has_room && menu_.can_put(value, store)) {
      add(Choice::put(store), menu_.copy_seconds(value, store, 0.3),
          bytes * (1 - stores[store].fraction_of(value)));
    }
  }
}

// Applies the best of `reliefs`, none that has failed before, until about `batch_bytes` are freed.
std::vector<Relief> Eviction::choose(const std::vector<Relief>& reliefs,
                                     const Simulation& simulation, const Failures& failures,
                                     std::int64_t batch_bytes) const {
  std::vector<Relief> chosen;
  std::vector<bool> is_chosen(problem_.trace.values.size());
  std::vector<std::int64_t> stored = simulation.stored_bytes;
  std::int64_t freed = 0;
  for (const Relief& relief : reliefs) {
    const std::int64_t bytes = problem_.trace.values[relief.value].bytes;
    const std::int8_t store = relief.choice.store;
    const bool has_room = store == kNone || stored[store] + bytes <=
                                                problem_.simulator.stores()[store].capacity_bytes;
    if (is_chosen[relief.value] || !has_room || failures.contains(key(relief))) {
      continue;
    }
    if (freed > 0 && freed >= batch_bytes) {
      break;
    }
    if (store != kNone) {
      stored[store] += bytes;
    }
    freed += bytes;
    is_chosen[relief.value] = true;
    chosen.push_back(relief);
  }
  return chosen;
}

Simulation Eviction::evict(Plan& plan, std::int64_t peak_bytes, std::int64_t batch_bytes,
                           bool may_rise, std::string_view method) const {
  Reruns reruns(problem_, plan);
  Failures failures;
  Simulation best = trials_.run(plan, method);
  while (best.is_valid && best.peak_bytes > peak_bytes && !trials_.is_over()) {
    trials_.spend(1);  // for the reliefs
    const std::vector<Relief> all = reliefs(plan, best, reruns);
    std::int64_t wanted = std::min(batch_bytes, best.peak_bytes - peak_bytes);
    bool has_changed = false;
    while (!has_changed && !trials_.is_over()) {
      const std::vector<Relief> chosen = choose(all, best, failures, wanted);
      if (chosen.empty()) {
        return best;
      }
      const Plan before = plan;
      for (const Relief& relief : chosen) {
        plan.choices[relief.value] = relief.choice;
        reruns.set_retained(relief.value, relief.choice.is_retained());
      }
      Simulation simulation = trials_.run(plan, method);
      has_changed = simulation.is_valid && (may_rise || simulation.peak_bytes <= best.peak_bytes);
      if (has_changed) {
        best = std::move(simulation);
        continue;
      }
      for (const Relief& relief : chosen) {
        plan.choices[relief.value] = before.choices[relief.value];
        reruns.set_retained(relief.value, before.choices[relief.value].is_retained());
      }
      if (chosen.size() == 1) {
        failures.insert(key(chosen.front()));
      }
      wanted = chosen.size() == 1 ? 0 : wanted / 4;
    }
  }
  return best;
}

}  // namespace reprise::planner_internal
