// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The bytes in memory over a step, by what they are.
#ifndef REPRISE_PLANNER_COMMAND_MEMORY_CURVE_H_
#define REPRISE_PLANNER_COMMAND_MEMORY_CURVE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/planner/explanation/outcome.h"

namespace reprise::planner_internal {

// In the order in which they are stacked, from below.
enum class MemoryClass : std::uint8_t {
  kBeforeStep,  // exists before the step
  kGradients,   // what backward makes
  kRetained,    // values of forward that backward needs
  kRecomputed,
  kOther,  // values of forward that the program alone needs
  kWorkspace,
};
inline constexpr std::size_t kMemoryClasses = 6;

struct MemoryMoment {
  double begin_seconds = 0;
  double end_seconds = 0;
  std::array<std::int64_t, kMemoryClasses> bytes{};  // by class
};

// Returns a moment per run of an operator; waits for stores take no time in it.
std::vector<MemoryMoment> memory_curve(const Outcome& outcome);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_MEMORY_CURVE_H_
