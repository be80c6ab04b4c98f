// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/fuzz/planned_step.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>

#include "reprise/planner/planner.h"
#include "reprise/planner/trace_format.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {
namespace {

using planner::Planner;
using planner::ScheduledRun;
using planner::Simulation;
using planner::Simulator;
using planner::Solution;
using planner::Trace;

constexpr std::size_t kMaxOperators = 24;
constexpr std::size_t kMaxValues = 32;

auto members(const planner::Value& value) {
  return std::tie(value.bytes, value.released, value.overwrites, value.kind, value.name);
}
auto members(const planner::Operator& op) {
  return std::tuple(op.name, std::bit_cast<std::uint64_t>(op.seconds), op.workspace_bytes,
                    op.can_recompute, op.reads, op.results, op.stack, op.once);
}
bool are_equal(const auto& some, const auto& others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const auto& a, const auto& b) { return members(a) == members(b); });
}

void check(const Solution& solution, const Simulator& simulator) {
  const Simulation again = simulator.run(solution.plan);
  require(again.is_valid, "a solution is valid");
  require(again.peak_bytes == solution.simulation.peak_bytes, "a solution has its peak");
  require(again.seconds == solution.simulation.seconds, "a solution has its time");
  require(solution.bound_seconds <= again.seconds * (1 + 1e-9), "a bound is not above the time");
  std::int64_t peak = 0;
  for (const ScheduledRun& run : simulator.schedule(solution.plan)) {
    peak = std::max(peak, run.live_bytes);
  }
  require(peak == again.peak_bytes, "a schedule has the peak of its plan");
  const Simulation reduced = simulator.run(simulator.reduced(solution.plan));
  require(reduced.peak_bytes == again.peak_bytes, "a reduced plan is the same step");
  const Trace& trace = simulator.trace();
  require(planner::plan_from_text(planner::to_text(solution.plan), trace) == solution.plan,
          "a plan reads back");
}

}  // namespace

std::vector<planner::StoreOption> some_stores() {
  return {{.name = "beside",
           .put_seconds_per_byte = 1e-9,
           .get_seconds_per_byte = 1e-9,
           .latency_seconds = 1e-6,
           .is_overlapped = true,
           .capacity_bytes = 1 << 20},
          {.name = "waits",
           .retained_fraction = 0.5,
           .put_seconds_per_byte = 1e-8,
           .get_seconds_per_byte = 1e-8,
           .smallest_bytes = 16}};
}

void check_text(const Trace& trace) {
  const Trace same = planner::trace_from_text(planner::to_text(trace));
  require(same.backward_begin == trace.backward_begin, "a trace's backward reads back");
  require(are_equal(same.operators, trace.operators), "operators read back");
  require(are_equal(same.values, trace.values), "values read back");
}

void check_plans(const Trace& trace) {
  if (trace.operators.size() > kMaxOperators || trace.values.size() > kMaxValues) {
    return;
  }
  Planner planner(trace, {.stores = some_stores(), .max_simulations = 30});
  const auto smallest = accepted<std::invalid_argument>([&] { return planner.smallest_peak(); },
                                                        {"trace: backward needs "});
  if (!smallest) {
    return;
  }
  check(*smallest, planner.simulator());
  const std::int64_t budget = smallest->simulation.peak_bytes;
  const auto found = planner.plan(budget);
  require(found && found->simulation.peak_bytes <= budget, "there is a plan for the smallest peak");
  check(*found, planner.simulator());
  check(planner.plan_within_overhead(0.25), planner.simulator());
  for (const Solution& solution : planner.frontier(3)) {
    check(solution, planner.simulator());
  }
}

}  // namespace reprise::fuzz
