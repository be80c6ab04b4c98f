// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What to retain, recompute and store of a training step. See reprise_plan --help.

#include <nlohmann/json.hpp>

#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include "reprise/planner/command/arguments.h"
#include "reprise/planner/command/findings.h"
#include "reprise/planner/command/json_report.h"
#include "reprise/planner/command/plot.h"
#include "reprise/planner/command/text_report.h"
#include "reprise/planner/explanation/explanation.h"
#include "reprise/planner/explanation/quantity_text.h"
#include "reprise/planner/format/text_file.h"
#include "reprise/planner/format/trace_section.h"
#include "reprise/planner/largest_batch.h"
#include "reprise/planner/planner.h"
#include "reprise/planner/step_report.h"
#include "reprise/planner/trace_format.h"

namespace reprise::planner_internal {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

// Of a file with a trace alone, no more than that is set.
struct Input {
  planner::StepReport step;
  bool has_plan = false;
};

Input load(const std::string& file) {
  try {
    Input input;
    const std::string text = read_file(file);
    input.has_plan = is_report(text);
    if (input.has_plan) {
      input.step = planner::report_from_text(text);
    } else {
      input.step.trace = planner::trace_from_text(text);
    }
    if (input.step.trace.operators.empty()) {
      throw std::invalid_argument("the trace has no operators");
    }
    return input;
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

// Before plans are searched for.
void check_explained(const planner::Trace& trace, const std::string& explained) {
  try {
    if (!explained.empty()) {
      static_cast<void>(find_operators(trace, explained));
    }
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--explain: ") + error.what());
  }
}

int print_largest_batch(const planner::Trace& trace, const Arguments& arguments) {
  const Arguments::Batches& batches = *arguments.batches;
  const planner::Trace other = load(batches.other_file).step.trace;
  const auto found = planner::find_largest_batch({.batch = batches.batch, .trace = &trace},
                                                 {.batch = batches.other_batch, .trace = &other},
                                                 {.peak_bytes = *arguments.budget->bytes});
  if (!found) {
    std::cerr << "reprise_plan: no batch fits into " << bytes_text(*arguments.budget->bytes)
              << '\n';
    return kExitFailure;
  }
  const double overhead = found->simulation.seconds / found->plain_seconds - 1;
  if (arguments.is_json) {
    std::cout << nlohmann::json{{"largest_batch", found->batch},
                                {"peak_bytes", found->simulation.peak_bytes},
                                {"seconds", found->simulation.seconds},
                                {"plain_seconds", found->plain_seconds}}
                     .dump(1)
              << '\n';
  } else {
    std::cout << "largest batch " << found->batch << ": peak "
              << bytes_text(found->simulation.peak_bytes) << ", "
              << seconds_text(found->simulation.seconds) << " a step, " << percent_text(overhead)
              << " more than without recomputation\n";
  }
  return 0;
}

int run(const Arguments& arguments) {
  const Input input = load(arguments.trace_file);
  const planner::Trace& trace = input.step.trace;
  if (arguments.batches) {
    return print_largest_batch(trace, arguments);
  }
  check_explained(trace, arguments.explain);
  planner::Planner planner(
      trace, {.stores = arguments.stores.empty() ? input.step.stores : arguments.stores});
  const planner::Simulator& simulator = planner.simulator();
  const Findings findings = find_plans(planner, arguments, input.has_plan ? &input.step : nullptr);
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
