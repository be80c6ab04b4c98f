// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The colour and the name of each class of memory in pictures.
#ifndef REPRISE_PLANNER_COMMAND_CLASS_STYLE_H_
#define REPRISE_PLANNER_COMMAND_CLASS_STYLE_H_

#include <array>
#include <cstddef>

#include "reprise/planner/command/gnuplot.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

struct ClassStyle {
  const char* color;
  const char* title;
};

// memory_class: the number of a planner::MemoryClass.
inline const ClassStyle& class_style(std::size_t memory_class) {
  static constexpr std::array<ClassStyle, planner::kMemoryClasses> kStyles = {{
      {kGrey, "exists before the step"},
      {kOrange, "made by backward"},
      {kBlue, "retained for backward"},
      {kSkyBlue, "recomputed"},
      {kGreen, "other values of forward"},
      {kVermilion, "workspace"},
  }};
  return kStyles.at(memory_class);
}

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_CLASS_STYLE_H_
