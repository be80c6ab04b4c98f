// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A step that a memory budget knows, as a section of a text: its operators and what they make, and
// the figures of its plan. Its trace and the choices of the plan are sections of their own.
#ifndef REPRISE_PLANNER_FORMAT_SAVED_STEP_H_
#define REPRISE_PLANNER_FORMAT_SAVED_STEP_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/planner/format/trace_section.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::planner_internal {

struct SavedResult {
  planner::ValueId value = planner::kNone;  // none: not in the trace
  std::int64_t bytes = 0;
  std::uint32_t until_call = 0;  // that it stays until, whatever the plan; 0: none
};

struct SavedCall {
  std::string op = {};  // its schema's name
  std::string overload = {};
  float seconds = 0;
  std::int64_t bytes = 0;
  std::size_t end_result = 0;  // of the step; the first one is the end of the call before
};

struct SavedPlan {
  planner::Plan choices = {};
  std::int64_t room_bytes = 0;  // that it was made for
  std::int64_t peak_error_bytes = 0;
  double bound_seconds = 0;
  bool is_smallest = false;
};

enum class SavedBackward : std::uint8_t { kWhole, kUnfinished, kUnobserved };

struct SavedStep {
  planner::Trace trace = {};
  std::vector<SavedCall> calls = {};
  std::vector<SavedResult> results = {};
  std::int32_t number = 0;      // in the order in which they became known
  std::int32_t recordings = 0;  // that are final
  SavedBackward backward = SavedBackward::kWhole;
  bool uses_stores = true;
  // Measured less predicted.
  std::int64_t excess_bytes = 0;
  std::optional<std::int64_t> least_excess_bytes = std::nullopt;
  double excess_seconds = 0;
  std::int32_t timed_steps = 0;
  std::optional<SavedPlan> plan = std::nullopt;
};

// The most that a plan is made for: sums with what a budget has do not overflow.
inline constexpr std::int64_t kMostRoomBytes = std::int64_t{1} << 62;

// Returns what is neither the trace nor the choices of the plan.
std::string step_to_section(const SavedStep& step);

// Adds that to a step whose trace has been read. If there is a plan, its choices are still to be
// read. Throws std::invalid_argument with the number of the line.
void read_step_section(Section section, SavedStep& step);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_FORMAT_SAVED_STEP_H_
