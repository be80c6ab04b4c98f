// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What pictures have in common: text, units and colours for gnuplot, and the program itself.
#ifndef REPRISE_PLANNER_COMMAND_GNUPLOT_H_
#define REPRISE_PLANNER_COMMAND_GNUPLOT_H_

#include <cstdint>
#include <string>

namespace reprise::planner_internal {

// Of Okabe and Ito's palette, which colour-blind readers can tell apart.
inline constexpr const char* kBlue = "#0072B2";
inline constexpr const char* kSkyBlue = "#56B4E9";
inline constexpr const char* kGreen = "#009E73";
inline constexpr const char* kOrange = "#E69F00";
inline constexpr const char* kVermilion = "#D55E00";

inline constexpr const char* kGrey = "#BBBBBB";
inline constexpr const char* kLightGrey = "#E4E4E4";
inline constexpr const char* kDarkGrey = "#444444";

// The unit in which the largest amount of a picture has few digits.
struct Unit {
  double size = 1;
  const char* name = "";
};

Unit byte_unit(std::int64_t largest);
Unit second_unit(double largest);

// Returns `text` as a string of gnuplot, less its control characters.
std::string quoted(const std::string& text);

// Throws std::runtime_error if gnuplot is missing or does not succeed with `script`.
void run_gnuplot(const std::string& script);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_COMMAND_GNUPLOT_H_
