// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/quantities.h"

#include <cmath>
#include <cstddef>
#include <map>

namespace reprise::planner_internal {
namespace {

using Units = std::map<std::string, double>;

const Units& byte_units() {
  static const Units kUnits = {{"B", 1},       {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
                               {"TB", 1e12},   {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},
                               {"T", 0x1p40},  {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
                               {"TiB", 0x1p40}};
  return kUnits;
}

struct Quantity {
  double number = 0;
  std::string unit;
};

// Nothing if `text` does not begin with a number that is finite and not negative.
std::optional<Quantity> split(const std::string& text) {
  std::size_t end = 0;
  double number = 0;
  try {
    number = std::stod(text, &end);
  } catch (const std::logic_error&) {
    return std::nullopt;
  }
  if (!std::isfinite(number) || number < 0) {
    return std::nullopt;
  }
  const std::size_t unit = text.find_first_not_of(' ', end);
  return Quantity{number, unit == std::string::npos ? "" : text.substr(unit)};
}

double parse(const std::string& text, const Units& units, const std::string& what) {
  const std::optional<Quantity> quantity = split(text);
  const auto unit = quantity ? units.find(quantity->unit) : units.end();
  if (unit == units.end()) {
    throw UsageError("'" + text + "' is not " + what);
  }
  return quantity->number * unit->second;
}

}  // namespace

std::int64_t Budget::resolve(std::int64_t base, std::int64_t peak) const {
  return bytes ? *bytes : base + std::llround(fraction * static_cast<double>(peak - base));
}

std::int64_t parse_bytes(const std::string& text) {
  const double bytes = parse(text, byte_units(), "an amount of memory such as 512MiB or 2GB");
  if (bytes > 1e18) {
    throw UsageError("'" + text + "' is more memory than there is");
  }
  return std::llround(bytes);
}

double parse_seconds(const std::string& text) {
  static const Units kUnits = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  return parse(text, kUnits, "a time such as 10us or 1.5ms");
}

double parse_seconds_per_byte(const std::string& text) {
  static const Units kUnits = [] {
    Units rates;
    for (const auto& [name, bytes] : byte_units()) {
      rates[name + "/s"] = bytes;
    }
    return rates;
  }();
  const double rate = parse(text, kUnits, "a rate such as 25GB/s");
  if (rate == 0) {
    throw UsageError("'" + text + "' is no rate: nothing would ever arrive");
  }
  return 1 / rate;
}

double parse_number(const std::string& text) {
  return parse(text, {{"", 1}}, "a number of at least 0");
}

Budget parse_budget(const std::string& text) {
  const std::optional<Quantity> quantity = split(text);
  if (quantity && quantity->unit.empty()) {
    if (quantity->number <= 1) {
      return {.bytes = std::nullopt, .fraction = quantity->number};
    }
    if (quantity->number != std::floor(quantity->number)) {
      throw UsageError("'" + text + "' is neither a share from 0 to 1 nor whole bytes");
    }
    return {.bytes = parse_bytes(text + "B")};
  }
  return {.bytes = parse_bytes(text)};
}

}  // namespace reprise::planner_internal
