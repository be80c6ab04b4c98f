// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/trace_format.h"

#include "reprise/planner/format/text_file.h"
#include "reprise/planner/format/trace_section.h"

namespace reprise::planner {

using planner_internal::read_file;
using planner_internal::write_file;

std::string to_text(const Trace& trace) { return planner_internal::trace_to_section(trace); }
std::string to_text(const Plan& plan) { return planner_internal::plan_to_section(plan); }

Trace trace_from_text(std::string_view text) {
  return planner_internal::trace_from_section({.text = text});
}
Plan plan_from_text(std::string_view text, const Trace& trace) {
  return planner_internal::plan_from_section({.text = text}, trace);
}

void write_trace(const Trace& trace, const std::string& path) { write_file(to_text(trace), path); }
Trace read_trace(const std::string& path) { return trace_from_text(read_file(path)); }
void write_plan(const Plan& plan, const std::string& path) { write_file(to_text(plan), path); }
Plan read_plan(const std::string& path, const Trace& trace) {
  return plan_from_text(read_file(path), trace);
}

}  // namespace reprise::planner
