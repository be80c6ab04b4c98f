// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/explanation/explanation.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <sstream>
#include <stdexcept>

#include "reprise/planner/explanation/quantity_text.h"

namespace reprise::planner_internal {
namespace {

constexpr std::size_t kListed = 5;  // operators

using planner::kNone;
using planner::OperatorId;
using planner::ScheduledRun;
using planner::Trace;
using planner::ValueId;

std::string times(int count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

std::string count_of(std::size_t count, const std::string& noun) {
  return std::to_string(count) + ' ' + noun + (count == 1 ? "" : "s");
}

std::string released_text(const Trace& trace, ValueId value) {
  const OperatorId released = trace.values[value].released;
  return released == kNone ? "the end of the step" : operator_label(trace, released);
}

std::string recomputation_text(const Explanation& explanation) {
  const Outcome::Recomputation& recomputation = explanation.recomputation;
  if (std::isinf(recomputation.seconds)) {
    return "it cannot be recomputed";
  }
  return "recomputing it takes " + seconds_text(recomputation.seconds) + " and " +
         count_of(static_cast<std::size_t>(recomputation.operators), "operator");
}

// Values that are read late have an operator at which their memory is wanted back.
std::string span_text(const Outcome& outcome, const Explanation& explanation) {
  const Trace& trace = outcome.trace();
  const ScheduledRun& last = outcome.schedule()[outcome.reads(explanation.value).back()];
  return bytes_text(trace.values[explanation.value].bytes) + " from " +
         released_text(trace, explanation.value) + ", where the program releases it, to " +
         operator_label(trace, last.requested_by == kNone ? last.op : last.requested_by) +
         ", which needs it last";
}

std::string recomputed_text(const Outcome& outcome, const Explanation& explanation) {
  const int stays_from = outcome.plan().choices[explanation.value].retained_from;
  std::string text = "recomputed " + times(explanation.times_recomputed);
  if (stays_from <= explanation.times_recomputed && explanation.times_recomputed > 1) {
    text += ", and stays from time " + std::to_string(stays_from) + " on";
  }
  return text + ": saves " + span_text(outcome, explanation) + "; " +
         recomputation_text(explanation);
}

std::string operators_text(const Trace& trace, const std::vector<OperatorId>& operators) {
  std::string text;
  for (std::size_t i = 0; i < std::min(operators.size(), kListed); ++i) {
    text += i == 0 ? "" : ", ";
    text += operator_label(trace, operators[i]);
  }
  const std::size_t more = operators.size() - std::min(operators.size(), kListed);
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

}  // namespace

std::vector<OperatorId> find_operators(const Trace& trace, const std::string& text) {
  const std::string number = text.substr(text.starts_with('#') ? 1 : 0);
  const bool is_number = !number.empty() && number.size() < 10 &&
                         std::all_of(number.begin(), number.end(),
                                     [](unsigned char c) { return '0' <= c && c <= '9'; });
  const auto size = static_cast<OperatorId>(trace.operators.size());
  if (is_number && std::stol(number) < size) {
    return {static_cast<OperatorId>(std::stol(number))};
  }
  std::vector<OperatorId> found;
  for (OperatorId op = 0; op < size; ++op) {
    if (trace.operators[op].name == text) {
      found.push_back(op);
    }
  }
  if (found.empty()) {
    throw std::invalid_argument("no operator has the number or the name '" + text +
                                "'; numbers go to " + std::to_string(size - 1));
  }
  return found;
}

Explanation explain(const Outcome& outcome, ValueId value) {
  Explanation explanation;
  explanation.value = value;
  for (const std::int32_t read : outcome.reads(value)) {
    const ScheduledRun& run = outcome.schedule()[read];
    if (run.requested_by != kNone) {
      explanation.reread_by.push_back(run.op);
    } else if (run.op >= outcome.trace().backward_begin) {
      explanation.read_by.push_back(run.op);
    }
  }
  const OperatorId producer = outcome.producer(value);
  if (producer != kNone && producer < outcome.trace().backward_begin) {
    explanation.recomputation = outcome.recomputation(value);
    explanation.times_recomputed = outcome.reruns(producer);
  }
  return explanation;
}

std::string reason(const Outcome& outcome, const Explanation& explanation) {
  const ValueId value = explanation.value;
  switch (outcome.fate(value)) {
    case Fate::kBeforeStep:
      return "exists before the step";
    case Fate::kNotNeeded:
      return "released after " + released_text(outcome.trace(), value) +
             ": backward does not need it";
    case Fate::kHeld:
      return "held by the program until " + released_text(outcome.trace(), value) +
             ": to retain it costs nothing";
    case Fate::kRetained:
      return "retained: takes " + span_text(outcome, explanation) + "; " +
             recomputation_text(explanation);
    case Fate::kStored:
      return "put into " + outcome.simulator().stores()[outcome.plan().choices[value].store].name +
             ": saves " + span_text(outcome, explanation) + "; " + recomputation_text(explanation);
    case Fate::kRecomputed:
      return recomputed_text(outcome, explanation);
  }
  return "";
}

std::string explanation_text(const Outcome& outcome, OperatorId op) {
  std::ostringstream out;
  const Trace& trace = outcome.trace();
  const planner::Operator& each = trace.operators[op];
  out << operator_label(trace, op) << ": " << seconds_text(each.seconds)
      << (op < trace.backward_begin ? ", of forward" : ", of backward")
      << (each.can_recompute || op >= trace.backward_begin ? "" : ", cannot run again")
      << (outcome.reruns(op) > 0 ? ", runs again " + std::to_string(outcome.reruns(op)) +
                                       (outcome.reruns(op) == 1 ? " time" : " times")
                                 : "")
      << '\n';
  for (const ValueId value : each.results) {
    const Explanation explanation = explain(outcome, value);
    out << "  " << (trace.values[value].name.empty() ? "result" : trace.values[value].name) << ", "
        << bytes_text(trace.values[value].bytes) << ": " << reason(outcome, explanation) << '\n';
    if (!explanation.read_by.empty()) {
      out << "    read by " << operators_text(trace, explanation.read_by) << '\n';
    }
    if (!explanation.reread_by.empty()) {
      out << "    read, when they run again, by " << operators_text(trace, explanation.reread_by)
          << '\n';
    }
  }
  return out.str();
}

}  // namespace reprise::planner_internal
