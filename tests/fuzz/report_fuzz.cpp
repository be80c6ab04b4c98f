// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Reports of steps as text: refused, or read, written and drawn.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "reprise/planner/memory_timeline.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "reprise/planner/trace_format.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/planned_step.h"

namespace reprise::fuzz {
namespace {

using namespace planner;

void check(const StepReport& report) {
  check_text(report.trace);
  const std::string text = to_text(report);
  require(to_text(report_from_text(text)) == text, "a report reads back");
  const Simulator simulator(report.trace, report.stores);
  const MemoryTimeline timeline = memory_timeline(simulator, report.plan);
  const bool is_empty = report.trace.operators.empty();
  require(timeline.moments.empty() == is_empty, "a report has a timeline");
  require(is_empty || timeline.moments[timeline.peak].total_bytes() ==
                          simulator.run(report.plan).peak_bytes,
          "a timeline has the peak of its plan");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto report =
      accepted<std::invalid_argument>([&] { return report_from_text(text_of(data, size)); },
                                      {"line ", "trace: ", "plan: ", "report: "});
  if (report) {
    check(*report);
  }
  return 0;
}

}  // namespace reprise::fuzz
