// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/kept_values.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <utility>
#include <vector>

#include "reprise/engine/budget/mebibytes.h"

namespace reprise::engine_internal {
namespace {

using BytesByName = std::map<std::string, std::int64_t>;

// Returns a line: the sum, and the largest parts. Less than a hundredth of a MiB is not worth one.
std::string line_of(const std::string& beginning, const BytesByName& bytes) {
  constexpr std::size_t kMostParts = 5;
  constexpr std::int64_t kLeast = 10486;
  std::vector<std::pair<std::int64_t, std::string>> parts;
  std::int64_t rest = 0;
  for (const auto& [name, part] : bytes) {
    rest += part;
    if (part >= kLeast) {
      parts.emplace_back(part, name);
    }
  }
  if (rest < kLeast) {
    return "";
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  parts.resize(std::min(parts.size(), kMostParts));
  std::ostringstream text;
  text << beginning << in_mebibytes(rest);
  std::string separator = ", of which ";
  for (const auto& [part, name] : parts) {
    text << std::exchange(separator, ", ") << in_mebibytes(part) << " of " << name;
    rest -= part;
  }
  if (rest >= kLeast) {
    text << separator << in_mebibytes(rest) << " of others";
  }
  text << "\n";
  return text.str();
}

}  // namespace

std::string describe_kept(const planner::Trace& trace, const planner::Plan& plan) {
  const std::vector<planner::OperatorId> producers = trace.producers();
  BytesByName once;
  BytesByName held;
  for (std::size_t value = 0; value < trace.values.size(); ++value) {
    const planner::OperatorId producer = producers[value];
    if (producer == planner::kNone || producer >= trace.backward_begin) {
      continue;
    }
    const planner::Operator& op = trace.operators[producer];
    const std::int64_t bytes = trace.values[value].bytes;
    const bool is_held = trace.is_held(static_cast<planner::ValueId>(value));
    if (!op.can_recompute && (is_held || plan.choices[value].is_retained())) {
      once[op.once.empty() ? op.name : op.name + " (" + op.once + ")"] += bytes;
    } else if (is_held) {
      held[op.name] += bytes;
    }
  }
  return line_of("cannot be computed again: ", once) +
         line_of("held by the program until backward: ", held);
}

}  // namespace reprise::engine_internal
