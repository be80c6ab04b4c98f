// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans as text, for one trace: refused, or read, written and simulated.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "reprise/planner/simulator.h"
#include "reprise/planner/trace_format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/planned_step.h"

namespace reprise::fuzz {
namespace {

using namespace planner;

// Six operators, one after the other, of which one writes in place and one cannot run again.
Trace step() {
  constexpr OperatorId kForward = 6;
  Trace trace{.operators = {}, .values = {{.bytes = 64}}, .backward_begin = kForward};
  for (OperatorId op = 0; op < kForward; ++op) {
    const ValueId result = trace.add_value({.bytes = 32 << op, .released = op + 1});
    trace.operators.push_back({.seconds = 1, .reads = {op}, .results = {result}});
  }
  trace.operators[1].can_recompute = false;
  trace.values[4].overwrites = 3;
  for (ValueId read = kForward; read >= 0; --read) {
    trace.operators.push_back({.seconds = 2, .can_recompute = false, .reads = {read}});
  }
  return trace;
}

void check(const Plan& plan, const Simulator& simulator) {
  require(plan_from_text(to_text(plan), simulator.trace()) == plan, "a plan reads back");
  const auto simulated =
      accepted<std::invalid_argument>([&] { return simulator.run(plan); }, {"plan: "});
  if (simulated && simulated->is_valid) {
    require(!simulator.schedule(plan).empty() && !simulator.live_at_peak(plan).empty(), "a peak");
    require(simulator.run(simulator.reduced(plan)).peak_bytes == simulated->peak_bytes,
            "a reduced plan is the same step");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Trace kTrace = step();
  static const Simulator kSimulator(kTrace, some_stores());
  const auto plan = accepted<std::invalid_argument>(
      [&] { return plan_from_text(text_of(data, size), kTrace); }, {"line "});
  if (plan) {
    check(*plan, kSimulator);
  }
  return 0;
}

}  // namespace reprise::fuzz
