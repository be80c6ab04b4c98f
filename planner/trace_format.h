// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: trace_format.h
//
// Traces and plans as text, to keep them, compare them and plan elsewhere. JSON Lines: a header,
// then an object per value and operator, numbered from 0 in order; members that have their default
// value are left out.
//
//   {"format":"reprise-trace","version":1,"backward_begin":1}
//   {"value":0,"bytes":4096,"kind":"input","name":"x"}
//   {"value":1,"bytes":8192,"released":0}
//   {"operator":0,"name":"relu","seconds":1e-05,"reads":[0],"results":[1]}
//   {"operator":1,"name":"relu_backward","seconds":2e-05,"can_recompute":false,"reads":[1]}
//
// A plan has an object per choice that is not the default:
//
//   {"format":"reprise-plan","version":1,"values":2}
//   {"value":1,"retained_from":0}
//
//   write_trace(trace, "step.jsonl");
//   const Trace same = read_trace("step.jsonl");
//
// An operator may have the stack of the code that calls it, as "stack", and the reason why it
// cannot be recomputed, as "once". A step's trace and the plan that it follows are in one file as a
// report, see step_report.h.
//
// What is written reads back equal, times included. Text from elsewhere is checked: it gives a
// valid trace, or an error.
//
// Not for large numbers of traces: the text is several times larger than the trace.
//
// Thread-safety: functions without state.
#ifndef REPRISE_PLANNER_TRACE_FORMAT_H_
#define REPRISE_PLANNER_TRACE_FORMAT_H_

#include <string>
#include <string_view>

#include "reprise/base/export.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::planner {

// Returns the trace as text. Throws std::invalid_argument if it is not valid, or a name is not
// UTF-8.
REPRISE_API std::string to_text(const Trace& trace);

// Returns the trace that `text` describes. Throws std::invalid_argument, with the number of the
// line and what is wrong with it, if `text` is not in this format or of another version, or has
// members that the format does not know; and as Trace::validate() does.
REPRISE_API Trace trace_from_text(std::string_view text);

// Returns the plan as text.
REPRISE_API std::string to_text(const Plan& plan);

// Returns the plan for `trace` that `text` describes. Throws std::invalid_argument as
// trace_from_text() does, and if the plan is for another number of values.
REPRISE_API Plan plan_from_text(std::string_view text, const Trace& trace);

// The same with files. Throw std::runtime_error if the file cannot be opened, read or written. A
// file that is there is replaced as a whole or stays as it is.
REPRISE_API void write_trace(const Trace& trace, const std::string& path);
REPRISE_API Trace read_trace(const std::string& path);
REPRISE_API void write_plan(const Plan& plan, const std::string& path);
REPRISE_API Plan read_plan(const std::string& path, const Trace& trace);

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_TRACE_FORMAT_H_
