// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/gnuplot.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <stdexcept>

namespace reprise::planner_internal {

Unit byte_unit(std::int64_t largest) {
  static constexpr std::array<Unit, 5> kUnits = {
      {{0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "bytes"}}};
  const auto fits = [&](const Unit& unit) { return static_cast<double>(largest) >= unit.size; };
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(), fits);
  return unit == kUnits.end() ? kUnits.back() : *unit;
}

Unit second_unit(double largest) {
  static constexpr std::array<Unit, 3> kUnits = {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}}};
  const auto* const unit = std::find_if(kUnits.begin(), kUnits.end(),
                                        [&](const Unit& each) { return largest >= each.size; });
  return unit == kUnits.end() ? kUnits.back() : *unit;
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char character : text) {
    if (static_cast<unsigned char>(character) >= ' ') {
      result += character == '\'' ? std::string("''") : std::string(1, character);
    }
  }
  return result + "'";
}

void run_gnuplot(const std::string& script) {
  std::signal(SIGPIPE, SIG_IGN);  // what ends early is an error here, not the end
  std::FILE* const gnuplot = popen("gnuplot >/dev/null", "w");
  const bool is_sent = gnuplot != nullptr && std::fputs(script.c_str(), gnuplot) >= 0;
  const bool is_drawn = gnuplot != nullptr && pclose(gnuplot) == 0 && is_sent;
  if (!is_drawn) {
    throw std::runtime_error("gnuplot is missing (tools/setup installs it) or has failed");
  }
}

}  // namespace reprise::planner_internal
