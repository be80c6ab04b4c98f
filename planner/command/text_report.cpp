// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/text_report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iomanip>
#include <string>
#include <vector>

#include "reprise/planner/explain.h"
#include "reprise/planner/explanation/explanation.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/explanation/peak.h"
#include "reprise/planner/explanation/quantity_text.h"

namespace reprise::planner_internal {
namespace {

using planner::OperatorId;
using planner::Simulator;
using planner::Solution;
using planner::Trace;
using planner::ValueId;

constexpr std::size_t kListed = 5;  // values or operators

constexpr std::size_t kColumns = 9;
using Row = std::array<std::string, kColumns>;

Row row_of(const Solution& solution, const Findings& findings, const Simulator& simulator,
           bool is_knee) {
  const Outcome outcome(simulator, solution.plan);
  const std::int64_t stored = stored_bytes(solution);
  return {is_knee ? "knee" : "",
          bytes_text(solution.simulation.peak_bytes),
          fixed_text(findings.share(solution.simulation.peak_bytes), 2),
          percent_text(findings.extra_time(solution)),
          percent_text(findings.gap(solution)),
          bytes_text(outcome.bytes_of(Fate::kRetained)),
          bytes_text(outcome.bytes_of(Fate::kRecomputed)),
          stored == 0 ? "-" : bytes_text(stored),
          solution.method};
}

void print_rows(const std::vector<Row>& rows, std::ostream& out) {
  std::array<std::size_t, kColumns> widths{};
  for (const Row& row : rows) {
    for (std::size_t column = 0; column < kColumns; ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  for (const Row& row : rows) {
    for (std::size_t column = 0; column + 1 < kColumns; ++column) {
      out << std::setw(static_cast<int>(widths[column])) << row[column] << "   ";
    }
    out << row.back() << '\n';
  }
}

void print_step(const Findings& findings, const Trace& trace, std::ostream& out) {
  out << trace.operators.size() << " operators, " << trace.backward_begin << " of them forward; "
      << seconds_text(findings.seconds) << "; peak without recomputation "
      << bytes_text(findings.peak_bytes) << ", before the step " << bytes_text(findings.base_bytes)
      << "\n\n";
}

void print_frontier(const Findings& findings, const Simulator& simulator, std::ostream& out) {
  std::vector<Row> rows = {{"", "peak", "share", "extra time", "gap at most", "retained",
                            "recomputed", "stored", "method"}};
  for (std::size_t i = 0; i < findings.frontier.size(); ++i) {
    rows.push_back(row_of(findings.frontier[i], findings, simulator, i == findings.knee));
  }
  print_rows(rows, out);
  const Solution& smallest = findings.frontier.front();
  out << "\nshare: of the memory beyond what exists before the step, as --budget takes it\n"
      << "gap: to the extra time of the fastest plan that could exist\n\n"
      << "The smallest peak, " << bytes_text(smallest.simulation.peak_bytes) << ", is at "
      << peak_label(simulator.trace(), smallest.simulation) << ".\nLargest in memory then:\n";
  out << largest_at_peak_text(Outcome(simulator, smallest.plan));
}

void print_reruns(const Outcome& outcome, const Solution& solution, std::ostream& out) {
  const Trace& trace = outcome.trace();
  std::vector<OperatorId> again;
  for (OperatorId op = 0; op < trace.backward_begin; ++op) {
    if (outcome.reruns(op) > 0) {
      again.push_back(op);
    }
  }
  const auto seconds_of = [&](OperatorId op) {
    return outcome.reruns(op) * trace.operators[op].seconds;
  };
  std::stable_sort(again.begin(), again.end(),
                   [&](OperatorId a, OperatorId b) { return seconds_of(a) > seconds_of(b); });
  out << again.size() << " of " << trace.backward_begin << " operators of forward run again, for "
      << seconds_text(solution.simulation.recompute_seconds)
      << (again.empty() ? "\n" : "; the most expensive:\n");
  again.resize(std::min(again.size(), kListed));
  for (const OperatorId op : again) {
    out << std::setw(12) << seconds_text(seconds_of(op)) << "  " << operator_label(trace, op)
        << (outcome.reruns(op) > 1 ? ", " + std::to_string(outcome.reruns(op)) + " times" : "")
        << '\n';
  }
}

void print_plan(const Findings& findings, const Simulator& simulator, std::ostream& out) {
  const Solution& solution = *findings.plan;
  const Outcome outcome(simulator, solution.plan);
  const planner::Simulation& simulation = solution.simulation;
  if (findings.budget_bytes) {
    out << "budget      " << bytes_text(*findings.budget_bytes) << ", a share of "
        << fixed_text(findings.share(*findings.budget_bytes), 2) << '\n';
  }
  out << "peak        " << bytes_text(simulation.peak_bytes) << " at "
      << peak_label(simulator.trace(), simulation) << '\n'
      << "time        " << seconds_text(simulation.seconds) << ", "
      << percent_text(findings.extra_time(solution)) << " extra\n"
      << "bound       " << seconds_text(solution.bound_seconds)
      << ": no plan is faster by more than " << percent_text(findings.gap(solution)) << '\n'
      << "retained    " << bytes_text(outcome.bytes_of(Fate::kRetained)) << '\n'
      << "recomputed  " << bytes_text(outcome.bytes_of(Fate::kRecomputed)) << '\n';
  if (stored_bytes(solution) > 0) {
    out << "stored      " << bytes_text(stored_bytes(solution)) << ", waited for "
        << seconds_text(simulation.store_seconds) << '\n';
  }
  out << "method      " << solution.method << "\n\n";
  print_reruns(outcome, solution, out);
}

}  // namespace

void print_report(const Findings& findings, const Simulator& simulator, const Arguments& arguments,
                  std::ostream& out) {
  print_step(findings, simulator.trace(), out);
  if (findings.plan) {
    print_plan(findings, simulator, out);
  } else {
    print_frontier(findings, simulator, out);
  }
  if (!arguments.explain.empty()) {
    const Outcome outcome(simulator, findings.subject()->plan);
    out << (findings.plan ? "\nUnder this plan:\n" : "\nUnder the plan of the knee:\n");
    for (const OperatorId op : find_operators(simulator.trace(), arguments.explain)) {
      out << '\n' << explanation_text(outcome, op);
    }
  }
}

void print_impossible(const Findings& findings, const Simulator& simulator, std::ostream& out) {
  const Solution& smallest = *findings.smallest;
  out << "no plan is found with a peak of at most " << bytes_text(*findings.budget_bytes)
      << "; the smallest is " << bytes_text(smallest.simulation.peak_bytes) << ", with "
      << percent_text(findings.extra_time(smallest)) << " extra time. "
      << planner::explain_peak(simulator, smallest.plan);
}

}  // namespace reprise::planner_internal
