// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Quantiles of measured ratios.
#ifndef REPRISE_BENCH_QUANTILE_H_
#define REPRISE_BENCH_QUANTILE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace reprise::bench {

// Returns the value at that part of the sorted values, 0 to 1. There has to be a value.
inline double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::lround(place))];
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

// Returns "1.02 (1.01-1.05)": the median and the quartiles, with so many decimals.
inline std::string with_quartiles(const std::vector<double>& values, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << median(values) << " ("
       << quantile(values, 0.25) << "-" << quantile(values, 0.75) << ")";
  return text.str();
}

}  // namespace reprise::bench

#endif  // REPRISE_BENCH_QUANTILE_H_
