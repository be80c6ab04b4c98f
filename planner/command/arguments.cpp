// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/arguments.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>

#include "reprise/planner/command/store_argument.h"

namespace reprise::planner_internal {
namespace {

struct Texts {
  std::string budget;
  std::string max_overhead;
  std::vector<std::string> stores;
  std::vector<std::string> batches;
};

void add_options(CLI::App& app, Arguments& arguments, Texts& texts) {
  app.add_option("FILE", arguments.trace_file,
                 "the trace of a step, or the report of a budget, whose own plan is shown unless "
                 "another one "
                 "is asked for")
      ->required();
  CLI::Option* budget = app.add_option(
      "--budget", texts.budget,
      "plan for this peak: bytes (2GiB, 512M), or a share from 0, the bytes that exist before the "
      "step, to 1, the peak without recomputation");
  app.add_option("--max-overhead", texts.max_overhead,
                 "plan for the smallest peak with at most so much extra time, in percent")
      ->excludes(budget);
  app.add_option("--store", texts.stores,
                 "where values can be put, as in host,rate=25GB/s,latency=10us,overlapped; also "
                 "put=, get=, smallest=, capacity=, retains=; may be given more than once");
  app.add_option("--explain", arguments.explain,
                 "say what becomes of the results of this operator, by number or name, and why");
  app.add_option("--largest-batch", texts.batches,
                 "the batch of FILE, the trace of the step with another batch, and that batch: say "
                 "which is the largest batch that fits into the budget")
      ->expected(3)
      ->type_name("N OTHER N")
      ->needs(budget);
  app.add_flag("--json", arguments.is_json, "print JSON, with the choices of the plans");
  app.add_option("--plot", arguments.plot_file,
                 "draw the frontier, and the memory and the values over the step, into this .svg "
                 "or .png file");
  app.add_option("--points", arguments.points, "budgets of the frontier")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
}

void parse(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    throw;
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw UsageError(line);
  }
}

void check_plot_file(const std::string& file) {
  const std::string extension = std::filesystem::path(file).extension().string();
  if (!file.empty() && extension != ".svg" && extension != ".png") {
    throw UsageError("--plot '" + file + "' ends in neither .svg nor .png");
  }
}

std::int64_t parse_batch(const std::string& text) {
  const double batch = parse_number(text);
  if (batch < 1 || batch > 1e9 || batch != std::floor(batch)) {
    throw UsageError("--largest-batch: '" + text + "' is not a number of samples");
  }
  return static_cast<std::int64_t>(batch);
}

std::optional<Arguments::Batches> parse_batches(const std::vector<std::string>& texts,
                                                const std::optional<Budget>& budget) {
  if (texts.empty()) {
    return std::nullopt;
  }
  if (!budget || !budget->bytes) {
    throw UsageError("--largest-batch needs a --budget in bytes");
  }
  return Arguments::Batches{parse_batch(texts[0]), texts[1], parse_batch(texts[2])};
}

std::vector<planner::StoreOption> parse_stores(const std::vector<std::string>& texts) {
  std::vector<planner::StoreOption> stores;
  for (const std::string& text : texts) {
    stores.push_back(parse_store(text));
    const std::string& name = stores.back().name;
    if (std::any_of(stores.begin(), stores.end() - 1,
                    [&](const planner::StoreOption& other) { return other.name == name; })) {
      throw UsageError("--store gives two stores the name '" + name + "'");
    }
  }
  return stores;
}

}  // namespace

std::optional<Arguments> parse_arguments(int argc, const char* const* argv) {
  Arguments arguments;
  Texts texts;
  CLI::App app(
      "Says what to retain, recompute and store of a training step, so that it fits into less "
      "memory and takes as little more time as possible. Without --budget and --max-overhead: for "
      "all budgets.",
      "reprise_plan");
  add_options(app, arguments, texts);
  try {
    parse(app, argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  }
  if (!texts.budget.empty()) {
    arguments.budget = parse_budget(texts.budget);
  }
  if (!texts.max_overhead.empty()) {
    arguments.max_overhead = parse_number(texts.max_overhead) / 100;
  }
  arguments.stores = parse_stores(texts.stores);
  arguments.batches = parse_batches(texts.batches, arguments.budget);
  check_plot_file(arguments.plot_file);
  return arguments;
}

}  // namespace reprise::planner_internal
