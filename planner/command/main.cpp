// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What to retain, recompute and store of a training step. See reprise_plan --help.

#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include "reprise/planner/command/arguments.h"
#include "reprise/planner/command/explanation.h"
#include "reprise/planner/command/findings.h"
#include "reprise/planner/command/json_report.h"
#include "reprise/planner/command/plot.h"
#include "reprise/planner/command/text_report.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/trace_format.h"

namespace reprise::planner_internal {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

planner::Trace load_trace(const std::string& file) {
  try {
    planner::Trace trace = planner::read_trace(file);
    if (trace.operators.empty()) {
      throw std::invalid_argument("the trace has no operators");
    }
    return trace;
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(file + ": " + error.what());
  }
}

void print_text(const Findings& findings, const planner::Simulator& simulator,
                const Arguments& arguments) {
  if (findings.is_impossible()) {
    std::cerr << "reprise_plan: ";
    print_impossible(findings, simulator, std::cerr);
  } else {
    print_report(findings, simulator, arguments, std::cout);
  }
}

int run(const Arguments& arguments) {
  const planner::Trace trace = load_trace(arguments.trace_file);
  if (!arguments.explain.empty()) {
    static_cast<void>(
        find_operators(trace, arguments.explain));  // to say now what is wrong with it
  }
  planner::Planner planner(trace, {.stores = arguments.stores});
  const planner::Simulator& simulator = planner.simulator();
  const Findings findings = find_plans(planner, arguments);
  if (arguments.is_json) {
    std::cout << json_report(findings, simulator, arguments) << '\n';
  } else {
    print_text(findings, simulator, arguments);
  }
  if (findings.is_impossible()) {
    return kExitFailure;
  }
  if (!arguments.plot_file.empty()) {
    write_plot(findings, simulator, arguments.plot_file);
  }
  return 0;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Arguments> arguments = parse_arguments(argc, argv);
    return arguments ? run(*arguments) : 0;
  } catch (const UsageError& error) {
    std::cerr << "reprise_plan: " << error.what() << '\n';
    return kExitUsage;
  } catch (const std::exception& error) {
    std::cerr << "reprise_plan: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace reprise::planner_internal

int main(int argc, char** argv) {
  return reprise::planner_internal::run_reporting_errors(argc, argv);
}
