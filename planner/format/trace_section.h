// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Traces and plans as sections of a text, from a line on that errors name.
#ifndef REPRISE_PLANNER_FORMAT_TRACE_SECTION_H_
#define REPRISE_PLANNER_FORMAT_TRACE_SECTION_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

// A header and the lines that follow it.
struct Section {
  std::string_view text;
  std::size_t line = 1;  // of its header
};

// Cuts off the section at the beginning of `rest`: up to the next header, or the end.
Section take_section(Section& rest);

inline constexpr std::string_view kReportFormat = "reprise-report";

// Returns whether the text begins with the header of a report (step_report.h).
inline bool is_report(std::string_view text) {
  const std::string_view header = text.substr(0, text.find('\n'));
  return header.find('"' + std::string(kReportFormat) + '"') != std::string_view::npos;
}

// As to_text(), trace_from_text() and plan_from_text() of trace_format.h.
std::string trace_to_section(const planner::Trace& trace);
std::string plan_to_section(const planner::Plan& plan);
planner::Trace trace_from_section(Section section);
planner::Plan plan_from_section(Section section, const planner::Trace& trace);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_TRACE_SECTION_H_
