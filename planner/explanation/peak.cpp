// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explanation/peak.h"
#include "reprise/planner/explanation/quantity_text.h"

#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <sstream>

namespace reprise::planner_internal {
namespace {

using planner::Operator;
using planner::Simulation;
using planner::Trace;
using planner::ValueId;

bool is_gradient(const Outcome& outcome, ValueId value) {
  return outcome.producer(value) >= outcome.trace().backward_begin;
}

bool is_stuck(const Outcome& outcome, ValueId value) {
  return outcome.fate(value) == Fate::kRetained &&
         !outcome.trace().operators[outcome.producer(value)].can_recompute;
}

bool is_of_operator(const Operator& op, ValueId value) {
  return std::count(op.reads.begin(), op.reads.end(), value) +
             std::count(op.results.begin(), op.results.end(), value) >
         0;
}

struct Remedy {
  std::int64_t bytes = 0;  // that it is about
  std::string text;
};

}  // namespace

std::string peak_label(const Trace& trace, const Simulation& simulation) {
  const std::string label = operator_label(trace, simulation.peak_operator);
  return simulation.peak_operator == simulation.peak_during
             ? label
             : label + ", which runs again for " + operator_label(trace, simulation.peak_during);
}

std::vector<ValueId> largest_at_peak(const Outcome& outcome, std::size_t count) {
  std::vector<ValueId> values = outcome.simulator().live_at_peak(outcome.plan());
  const auto is_empty = [&](ValueId value) { return outcome.trace().values[value].bytes == 0; };
  values.erase(std::find_if(values.begin(), values.end(), is_empty), values.end());
  values.resize(std::min(values.size(), count));
  return values;
}

std::string largest_at_peak_text(const Outcome& outcome) {
  constexpr std::size_t kListed = 5;
  constexpr int kWidth = 12;  // of the bytes
  std::ostringstream out;
  for (const ValueId value : largest_at_peak(outcome, kListed)) {
    out << std::setw(kWidth) << bytes_text(outcome.trace().values[value].bytes) << "  "
        << value_label(outcome, value) << " (" << role_at_peak(outcome, value) << ")\n";
  }
  return out.str();
}

std::string role_at_peak(const Outcome& outcome, ValueId value) {
  if (is_gradient(outcome, value)) {
    return "gradient";
  }
  return is_stuck(outcome, value) ? "retained, as it cannot be recomputed"
                                  : fate_name(outcome.fate(value));
}

std::vector<std::string> advice(const Outcome& outcome, const Simulation& simulation) {
  const Trace& trace = outcome.trace();
  const Operator& at_peak = trace.operators[simulation.peak_operator];
  Remedy before = {0, " exist before the step: fewer or partitioned parameters and states"};
  Remedy gradients = {0, " are gradients: release each as soon as it is used"};
  Remedy stuck = {0, " are results of operators that cannot run again: allow them to"};
  Remedy retained = {0, " are retained: a store takes them out of this memory"};
  Remedy own = {at_peak.workspace_bytes,
                " are what " + operator_label(trace, simulation.peak_operator) +
                    " itself reads, makes and works with: split it, or the batch"};
  for (const ValueId value : outcome.simulator().live_at_peak(outcome.plan())) {
    const std::int64_t bytes = trace.values[value].bytes;
    before.bytes += outcome.fate(value) == Fate::kBeforeStep ? bytes : 0;
    gradients.bytes += is_gradient(outcome, value) ? bytes : 0;
    stuck.bytes += is_stuck(outcome, value) ? bytes : 0;
    retained.bytes += outcome.fate(value) == Fate::kRetained ? bytes : 0;
    own.bytes +=
        outcome.fate(value) != Fate::kBeforeStep && is_of_operator(at_peak, value) ? bytes : 0;
  }
  if (!outcome.simulator().stores().empty()) {
    retained.bytes = 0;
  }
  std::vector<Remedy> remedies = {before, gradients, stuck, retained, own};
  std::stable_sort(remedies.begin(), remedies.end(),
                   [](const Remedy& a, const Remedy& b) { return a.bytes > b.bytes; });
  std::vector<std::string> texts;
  for (const Remedy& remedy : remedies) {
    if (remedy.bytes > 0) {
      texts.push_back(bytes_text(remedy.bytes) + remedy.text);
    }
  }
  return texts;
}

}  // namespace reprise::planner_internal
