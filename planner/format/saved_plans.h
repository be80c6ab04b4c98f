// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a memory budget knows of its steps, as text: MemoryBudget::save_plans() writes it. Sections
// of JSON Lines: first the budget and what was measured of its stores, then for each step its trace
// (trace_format.h), its operators as they are found again, and its plan if there is one:
//
//   {"format":"reprise-plans","version":1,"device":"cpu","peak_bytes":67108864,"steps":1}
//   {"format":"reprise-trace","version":1,"backward_begin":1}
//   ...
//   {"format":"reprise-step","version":1,"number":0,"recordings":2,"room_bytes":65536}
//   {"call":0,"operator":"aten::relu","seconds":1e-05}
//   {"result":0,"value":1,"bytes":8192}
//   {"format":"reprise-plan","version":1,"values":2}
//   ...
//
// Operators are names: what they are is for the reader to find out.
#ifndef REPRISE_PLANNER_FORMAT_SAVED_PLANS_H_
#define REPRISE_PLANNER_FORMAT_SAVED_PLANS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/export.h"
#include "reprise/planner/format/saved_step.h"

namespace reprise::planner_internal {

// What one store makes of the results of one kind.
struct SavedSample {
  std::string kind = {};
  std::int32_t store = 0;
  std::int32_t samples = 0;  // of the kind
  float fraction = 0;        // that is retained: the greatest
  // Of the fastest sample:
  std::int64_t bytes = 0;
  std::int64_t retained_bytes = 0;
  double call_seconds = 0;
  double put_seconds = 0;
  double get_seconds = 0;
  bool needs_successor = false;
  bool copies_on_device = false;
};

struct SavedPlans {
  std::string device = {};
  // For people.
  std::string torch = {};
  std::string reprise = {};
  // The aim: one of these.
  std::int64_t peak_bytes = 0;
  std::optional<double> max_overhead = std::nullopt;
  std::int64_t bytes_before_step = 0;  // of the last one
  std::int32_t stores = 0;
  std::vector<SavedSample> samples = {};  // one per store, then those of the next kind
  std::vector<SavedStep> steps = {};      // the latest first
};

// Throws std::invalid_argument if a name is not UTF-8, or a trace is not valid.
REPRISE_API std::string to_text(const SavedPlans& plans);

// Throws std::invalid_argument, with the number of the line and what is wrong with it, as
// trace_from_text() does. What it returns refers to values, results and stores that exist; plans
// without stores are valid ones for their traces.
REPRISE_API SavedPlans saved_plans_from_text(std::string_view text);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_SAVED_PLANS_H_
