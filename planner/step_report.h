// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: step_report.h
//
// A step within a memory budget as MemoryBudget::write_report() writes it: its trace, the plan that
// it follows, and the budget. As text: three sections, each with a header and a version. The second
// is a trace, the third a plan, as trace_format.h has them; the first has the budget and the stores
// of the plan, from 0 on:
//
//   {"format":"reprise-report","version":1,"budget_bytes":67108864,"measured_peak_bytes":66846720}
//   {"store":0,"name":"host","put_seconds_per_byte":4e-11,"get_seconds_per_byte":4e-11}
//   {"format":"reprise-trace","version":1,"backward_begin":1}
//   ...
//   {"format":"reprise-plan","version":1,"values":2}
//   ...
//
// `tools/plan FILE --plot step.svg` draws the memory of such a step.
//
//   const StepReport report = read_report("step.report");
//   const Simulator simulator(report.trace, report.stores);
//   const MemoryTimeline timeline = memory_timeline(simulator, report.plan);
//
// What is written reads back equal. Text from elsewhere is checked: it gives a valid report, or an
// error.
//
// Thread-safety: functions without state.
#ifndef REPRISE_PLANNER_STEP_REPORT_H_
#define REPRISE_PLANNER_STEP_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::planner {

struct StepReport {
  Trace trace;  // of the step without recomputation
  Plan plan;
  std::vector<StoreOption> stores = {};  // of the plan

  // What the plan is for, one of these; neither: unknown.
  std::optional<std::int64_t> budget_bytes = std::nullopt;  // at the peak
  std::optional<double> max_overhead = std::nullopt;        // of the time, as a fraction

  std::optional<std::int64_t> measured_peak_bytes = std::nullopt;  // of the last step
};

// Returns the report as text. Throws std::invalid_argument if the trace is not valid, the plan is
// not a valid one for it and the stores, or a name is not UTF-8.
REPRISE_API std::string to_text(const StepReport& report);

// Returns the report that `text` describes. Throws std::invalid_argument, with the number of the
// line and what is wrong with it, as trace_from_text() does; and if the plan needs a value that it
// does not have.
REPRISE_API StepReport report_from_text(std::string_view text);

// The same with files. Throw std::runtime_error if the file cannot be opened, read or written. A
// file that is there is replaced as a whole or stays as it is.
REPRISE_API void write_report(const StepReport& report, const std::string& path);
REPRISE_API StepReport read_report(const std::string& path);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_STEP_REPORT_H_
