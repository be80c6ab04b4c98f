// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/chain/stages.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "reprise/planner/chain/stage_trace.h"
#include "reprise/planner/cut/retention_cut.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {
namespace {

using planner::Choice;
using planner::Operator;
using planner::ScheduledRun;
using planner::Simulator;

// What happens after the region's part of forward.
struct Tail {
  std::int64_t need = 0;
  double seconds = 0;  // of operators that run again
};

Tail simulate_tail(const Simulator& simulator, const Plan& plan) {
  Tail tail;
  const std::vector<ScheduledRun> schedule = simulator.schedule(plan);
  for (std::size_t i = simulator.trace().backward_begin; i < schedule.size(); ++i) {
    tail.need = std::max(tail.need, schedule[i].live_bytes);
    if (schedule[i].requested_by != kNone) {
      tail.seconds += simulator.trace().operators[schedule[i].op].seconds;
    }
  }
  return tail;
}

Plan never_retain(const Trace& trace) {
  Plan plan(trace);
  std::fill(plan.choices.begin(), plan.choices.end(), Choice{.retained_from = Choice::kNever});
  return plan;
}

class StageBuilder {
 public:
  StageBuilder(const Trace& whole, const RegionChain& chain, const AmbientMemory& ambient,
               RegionId region)
      : whole_(whole),
        chain_(chain),
        ambient_(ambient),
        region_(chain.regions[region]),
        id_(region),
        backward_(whole, chain, ambient, region, RegionTail::kBackward, RegionInputs::kKept),
        sweep_(whole, chain, ambient, region, RegionTail::kSweep, RegionInputs::kKept),
        backward_simulator_(backward_.trace),
        sweep_simulator_(sweep_.trace) {
    const StageTrace passed(whole, chain, ambient, region, RegionTail::kSweep,
                            RegionInputs::kPassed);
    stage_.passed_need = simulate_tail(Simulator(passed.trace), never_retain(passed.trace)).need;
  }

  Stage build() {
    for (const ValueId value : region_.inputs) {
      stage_.input_bytes += whole_.values[value].bytes;
      stage_.is_input_evicted = stage_.is_input_evicted || whole_.values[value].is_evicted;
    }
    stage_.sweep_seconds = simulate_tail(sweep_simulator_, never_retain(sweep_.trace)).seconds;
    stage_.passed_in_forward_need = forward_need({}, false);
    stage_.resident_bytes = resident_bytes();
    add_option({});
    add_cuts();
    return std::move(stage_);
  }

 private:
  // In forward, with what is retained of the region so far. The inputs are counted elsewhere if
  // they are kept.
  std::int64_t forward_need(const std::vector<ValueId>& retained, bool are_inputs_kept) const {
    std::int64_t need = 0;
    for (OperatorId op = region_.begin; op < region_.end; ++op) {
      std::int64_t bytes = ambient_.during[op];
      for (const ValueId value : retained) {
        bytes += is_released_before(value, op) ? whole_.values[value].bytes : 0;
      }
      for (const ValueId value : region_.inputs) {
        const bool is_counted = are_inputs_kept && whole_.values[value].released >= op;
        bytes -= is_counted ? whole_.values[value].bytes : 0;
      }
      need = std::max(need, bytes);
    }
    return need;
  }

  // And made before it as well.
  bool is_released_before(ValueId value, OperatorId op) const {
    return whole_.values[value].released < op;
  }

  // What the program holds when backward comes to the region, and the region's outputs if they are
  // read in its backward and thus still there.
  std::int64_t resident_bytes() const {
    std::int64_t bytes = 0;
    std::vector<bool> is_read(backward_.trace.values.size());
    const auto size = static_cast<OperatorId>(backward_.trace.operators.size());
    for (OperatorId op = backward_.trace.backward_begin; op < size; ++op) {
      for (const ValueId value : backward_.trace.operators[op].reads) {
        is_read[value] = true;
      }
    }
    for (std::size_t value = 0; value < is_read.size(); ++value) {
      bytes +=
          is_read[value] && backward_.is_output[value] ? backward_.trace.values[value].bytes : 0;
    }
    return bytes + ambient_at_first_request();
  }

  std::int64_t ambient_at_first_request() const {
    for (OperatorId op = region_.backward_begin; op < region_.backward_end; ++op) {
      const std::vector<ValueId>& reads = whole_.operators[op].reads;
      if (std::any_of(reads.begin(), reads.end(),
                      [this](ValueId value) { return chain_.must_be_kept(value); })) {
        return ambient_.before[op];
      }
    }
    return 0;
  }

  void add_option(const std::vector<ValueId>& retained) {
    Plan in_backward(backward_.trace);
    Plan in_sweep = never_retain(sweep_.trace);
    StageOption option{.retained = retained};
    for (std::size_t local = 0; local < backward_.trace.values.size(); ++local) {
      const ValueId value = backward_.original[local];
      const bool is_retained =
          value != kNone && std::binary_search(retained.begin(), retained.end(), value);
      if (is_retained || backward_.is_output[local]) {
        in_backward.choices[local] = Choice::retain();
      }
      if (is_retained) {
        option.retained_bytes += backward_.trace.values[local].bytes;
        option.retains_evicted = option.retains_evicted || whole_.values[value].is_evicted;
        in_sweep.choices[local] = Choice::recompute();  // and stays from then on
      }
    }
    const Tail backward = simulate_tail(backward_simulator_, in_backward);
    option.seconds = backward.seconds;
    option.backward_need = backward.need;
    option.sweep_need = simulate_tail(sweep_simulator_, in_sweep).need;
    option.forward_need = forward_need(retained, true);
    stage_.options.push_back(std::move(option));
  }

  void add_cuts() {
    const Trace& trace = backward_.trace;
    const TraceFacts facts(trace);
    const RetentionCut cut(trace, facts);
    double seconds = 0;
    double bytes = 0;
    for (const Operator& each : trace.operators) {
      seconds += each.seconds;
    }
    for (ValueId value = 0; value < static_cast<ValueId>(trace.values.size()); ++value) {
      bytes += is_choice(value) ? static_cast<double>(trace.values[value].bytes) : 0;
    }
    if (bytes == 0) {
      return;
    }
    constexpr int kPrices = 11;
    for (int i = 0; i < kPrices; ++i) {
      const double price = seconds / bytes * std::pow(3.0, i - kPrices / 2);
      add_if_new(retained_at(cut, facts, price));
    }
  }

  bool is_choice(ValueId local) const {
    const ValueId value = backward_.original[local];
    return value != kNone && chain_.region_of[value] == id_ && chain_.must_be_kept(value) &&
           !backward_.is_output[local];
  }

  std::vector<ValueId> retained_at(const RetentionCut& cut, const TraceFacts& facts,
                                   double price) const {
    Prices prices;
    for (ValueId value = 0; value < static_cast<ValueId>(facts.overwriter.size()); ++value) {
      const auto bytes = static_cast<double>(backward_.trace.values[value].bytes);
      prices.retain.push_back(facts.overwriter[value] != kNone
                                  ? std::numeric_limits<double>::infinity()
                                  : (is_choice(value) ? price * bytes : 0));
    }
    for (const Operator& each : backward_.trace.operators) {
      prices.rerun.push_back(each.seconds);
    }
    const Cut solution = cut.solve(prices);
    std::vector<ValueId> retained;
    for (ValueId value = 0; value < static_cast<ValueId>(facts.overwriter.size()); ++value) {
      if (solution.is_retained[value] && is_choice(value)) {
        retained.push_back(backward_.original[value]);
      }
    }
    std::sort(retained.begin(), retained.end());
    return retained;
  }

  void add_if_new(const std::vector<ValueId>& retained) {
    const bool is_new =
        std::none_of(stage_.options.begin(), stage_.options.end(),
                     [&](const StageOption& option) { return option.retained == retained; });
    if (is_new) {
      add_option(retained);
    }
  }

  const Trace& whole_;
  const RegionChain& chain_;
  const AmbientMemory& ambient_;
  const Region& region_;
  const RegionId id_;
  StageTrace backward_;
  StageTrace sweep_;
  Simulator backward_simulator_;
  Simulator sweep_simulator_;
  Stage stage_;
};

}  // namespace

std::vector<Stage> make_stages(const Trace& trace, const RegionChain& chain,
                               const AmbientMemory& ambient) {
  std::vector<Stage> stages;
  for (std::size_t region = 0; region < chain.regions.size(); ++region) {
    stages.push_back(StageBuilder(trace, chain, ambient, static_cast<RegionId>(region)).build());
  }
  return stages;
}

}  // namespace reprise::planner_internal
