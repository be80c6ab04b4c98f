// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "table.h"

#include <algorithm>
#include <array>
#include <iomanip>
#include <sstream>
#include <string>

#include "memory.h"

namespace char_gpt {
namespace {

constexpr std::size_t kColumns = 6;
constexpr const char* kGap = "   ";
using Row = std::array<std::string, kColumns>;

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// The plain run, if it was measured and fits.
const Measurement* reference_of(const std::vector<Measurement>& measurements) {
  for (const Measurement& candidate : measurements) {
    if (candidate.variant == &all_variants().front() && !candidate.out_of_memory) {
      return &candidate;
    }
  }
  return nullptr;
}

std::string compared(bool is_equal) { return is_equal ? "bitwise equal" : "DIFFERENT"; }

Row row_of(const Measurement& measurement, const Measurement* reference) {
  const std::string& name = measurement.label;
  if (measurement.out_of_memory) {
    return {name, "out of memory", "-", "-", "-", "-"};
  }
  const bool can_compare = reference != nullptr && reference != &measurement;
  return {name,
          mebibytes_text(measurement.kept_bytes),
          mebibytes_text(measurement.peak_bytes),
          fixed(measurement.step_ms, 0) + " ms",
          reference != nullptr ? fixed(measurement.step_ms / reference->step_ms, 2) : "-",
          can_compare ? compared(measurement.gradients == reference->gradients) : "-"};
}

void print_row(const Row& row, const std::array<std::size_t, kColumns>& widths, std::ostream& out) {
  for (std::size_t column = 0; column < kColumns; ++column) {
    const bool is_last = column + 1 == kColumns;
    out << (column == 0 ? "" : kGap) << (column == 0 ? std::left : std::right)
        << std::setw(is_last ? 0 : static_cast<int>(widths[column])) << row[column];
  }
  out << '\n';
}

void print_notes(const std::vector<Measurement>& measurements, const Measurement* reference,
                 std::ostream& out) {
  const auto fitting = std::find_if(measurements.begin(), measurements.end(),
                                    [](const Measurement& m) { return !m.out_of_memory; });
  if (fitting == measurements.end()) {
    return;
  }
  out << "kept: bytes that forward leaves behind for backward\n"
      << "peak: bytes of all tensors over forward and backward, with the "
      << mebibytes_text(fitting->state_bytes) << " of\n"
      << "      parameters, optimiser state and batch\n"
      << "step: median of " << fitting->losses.size() << " interleaved whole steps\n";
  for (const Measurement& measurement : measurements) {
    if (reference != nullptr && &measurement != reference && !measurement.out_of_memory) {
      out << "losses of the first " << measurement.losses.size() << " steps, "
          << measurement.variant->name << " and " << reference->variant->name << ": "
          << compared(measurement.losses == reference->losses) << '\n';
    }
  }
}

}  // namespace

void print_table(const std::vector<Measurement>& measurements, std::ostream& out) {
  const Measurement* reference = reference_of(measurements);
  std::vector<Row> rows = {
      {"variant", "kept after forward", "peak of a step", "step", "ratio", "gradients"}};
  for (const Measurement& measurement : measurements) {
    rows.push_back(row_of(measurement, reference));
  }
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  print_row(rows.front(), widths, out);
  Row rule;
  for (std::size_t column = 0; column < kColumns; ++column) {
    rule[column] = std::string(widths[column], '-');
  }
  print_row(rule, widths, out);
  for (std::size_t row = 1; row < rows.size(); ++row) {
    print_row(rows[row], widths, out);
  }
  print_notes(measurements, reference, out);
}

}  // namespace char_gpt
