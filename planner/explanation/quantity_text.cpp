// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explanation/quantity_text.h"

#include <cmath>
#include <iomanip>
#include <sstream>

namespace reprise::planner_internal {
namespace {

std::string scaled_text(double number, double step, const char* const* units, int last) {
  int unit = 0;
  while (number >= step && unit < last) {
    number /= step;
    ++unit;
  }
  const int digits = number >= 100 || number == 0 ? 0 : (number >= 10 ? 1 : 2);
  return fixed_text(number, digits) + ' ' + units[unit];
}

}  // namespace

std::string fixed_text(double number, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << number;
  return out.str();
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  return bytes < 1024 ? std::to_string(bytes) + " B"
                      : scaled_text(static_cast<double>(bytes), 1024, kUnits, 4);
}

std::string seconds_text(double seconds) {
  static constexpr const char* kUnits[] = {"ns", "us", "ms", "s"};
  return scaled_text(seconds * 1e9, 1000, kUnits, 3);
}

std::string percent_text(double fraction) {
  // No "-0.00 %" for sums that differ in their last bits alone.
  const double percent = std::abs(fraction) < 5e-5 ? 0 : 100 * fraction;
  return fixed_text(percent, 2) + " %";
}

}  // namespace reprise::planner_internal
