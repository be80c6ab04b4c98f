// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace llama_lora {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string row_text(const Measurement& measurement, const Measurement& plain) {
  const auto part = [&](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(plain.peak_bytes);
  };
  const double step_ms = median(measurement.step_ms);
  std::ostringstream text;
  text << std::left << std::setw(9) << measurement.variant->name << std::right << std::setw(14)
       << mebibytes_text(measurement.kept_bytes) << std::setw(14)
       << mebibytes_text(measurement.peak_bytes) << std::fixed << std::setprecision(4)
       << std::setw(9) << part(measurement.peak_bytes) << std::setprecision(0) << std::setw(9)
       << step_ms << " ms" << std::setprecision(2) << std::setw(7)
       << step_ms / median(plain.step_ms) << "   ";
  if (&measurement == &plain) {
    text << "-";
  } else {
    text << (is_bitwise_equal(measurement, plain) ? "bitwise equal" : "DIFFERENT");
  }
  return text.str();
}

}  // namespace

std::string mebibytes_text(std::int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

bool is_bitwise_equal(const Measurement& a, const Measurement& b) {
  return a.losses == b.losses && a.gradients == b.gradients;
}

std::string table_text(const std::vector<Measurement>& measurements) {
  std::string text =
      "variant  kept after fwd       its peak     part        step  ratio   losses and gradients\n";
  for (const Measurement& measurement : measurements) {
    text += row_text(measurement, measurements.front()) + '\n';
  }
  return text;
}

}  // namespace llama_lora
