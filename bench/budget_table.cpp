// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Training steps within budgets: the peak and the time of each beside the predicted ones, as a
// table in Markdown. A budget is a part of the peak of the plain step over the memory before it;
// the last one is the smallest peak that the planner finds. Steps of all budgets and plain steps
// take turns, so that a ratio is one of neighbours in time.
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/freed_memory.h"
#include "bench/models/model.h"
#include "bench/quantile.h"
#include "bench/zoo/zoo.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/planner/planner.h"
#include "reprise/policies/policies.h"

namespace reprise::bench {
namespace {

using Clock = std::chrono::steady_clock;

const std::vector<double> kParts = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2};
constexpr int kWarmUps = 6;  // two are recorded, and the plan is calibrated from the others

struct Subject {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor()> forward;
};

Subject row_of_blocks(std::string name, Model model) {
  return {std::move(name), model.module, [model] { return run_plainly(model); }};
}

Subject from_zoo(const std::string& name, std::int64_t scale) {
  const auto kind = std::find_if(zoo::kinds().begin(), zoo::kinds().end(),
                                 [&](const zoo::Kind& each) { return each.name == name; });
  auto model = kind->make(scale);
  return {name, model, [model] { return model->loss({}); }};
}

const std::vector<std::string> kSubjects = {"gpt",  "gpt-fused", "swiglu",   "resnet",
                                            "lstm", "moe",       "densenet", "unet"};

Subject make_subject(const std::string& name) {
  constexpr std::int64_t kScale = 16;
  if (name == "swiglu") {
    torch::manual_seed(0);
    return row_of_blocks(name, swiglu::make({.batch = 2}));
  }
  if (name == "unet" || name == "densenet") {
    return from_zoo(name, kScale);
  }
  return row_of_blocks(name, make_model(name));
}

double plain_step(const Subject& subject) {
  subject.module->zero_grad();
  const Clock::time_point start = Clock::now();
  subject.forward().backward();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double budgeted_step(const Subject& subject, MemoryBudget& budget) {
  subject.module->zero_grad();
  const Clock::time_point start = Clock::now();
  BudgetScope scope(budget);
  const at::Tensor loss = subject.forward();
  std::move(scope).close();
  loss.backward();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The same tape, which retains all that a plain step does.
double taped_step(const Subject& subject) {
  subject.module->zero_grad();
  const Clock::time_point start = Clock::now();
  CheckpointScope scope({.policy = policies::save_everything()});
  const at::Tensor loss = subject.forward();
  std::move(scope).close();
  loss.backward();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Bytes {
  std::int64_t before = 0;
  std::int64_t peak = 0;      // of the plain step, beyond them
  std::int64_t smallest = 0;  // that the planner finds
};

Bytes bytes_of(const Subject& subject) {
  plain_step(subject);
  subject.module->zero_grad();
  Bytes bytes;
  bytes.before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  plain_step(subject);
  bytes.peak = cpu_memory().peak_bytes - bytes.before;
  subject.module->zero_grad();
  StepProfileGuard profile;
  subject.forward().backward();
  const planner::Trace trace = std::move(profile).finish();
  bytes.smallest =
      planner::Planner(trace).smallest_peak().simulation.peak_bytes - trace.bytes_before_step();
  subject.module->zero_grad();
  return bytes;
}

// A budget, and its steps.
struct Row {
  Row(std::int64_t growth, const Bytes& bytes)
      : asked(growth), budget(MemoryBudgetOptions{.peak_bytes = bytes.before + growth}) {}

  std::int64_t asked;  // beyond the bytes before the step
  MemoryBudget budget;
  std::string failure = {};
  std::int64_t peak = 0;
  double worst_peak_error = 0;
  std::vector<double> predicted = {};  // seconds
  std::vector<double> ratios = {};     // to the plain step of the same round
  std::vector<double> seconds = {};
};

void step(const Subject& subject, Row& row, const Bytes& bytes, double plain_seconds, bool counts) {
  try {
    const double seconds = budgeted_step(subject, row.budget);
    const BudgetedStep last = *row.budget.last_step();
    if (!counts || (!last.is_planned() && !last.has_other_sizes)) {
      return;
    }
    const std::int64_t growth = last.peak_bytes - bytes.before;
    row.peak = std::max(row.peak, growth);
    if (last.is_planned()) {
      row.worst_peak_error =
          std::max(row.worst_peak_error,
                   std::abs(static_cast<double>(*last.predicted_peak_bytes - last.peak_bytes)) /
                       static_cast<double>(growth));
      row.predicted.push_back(last.predicted_seconds);
      row.seconds.push_back(seconds);
    }
    row.ratios.push_back(seconds / plain_seconds);
    row.failure.clear();
  } catch (const BudgetExceededError&) {
    row.failure = counts ? "a step does not fit" : row.failure;
  }
}

std::string in_percent(double part) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << 100 * part;
  return text.str();
}

void print(const Subject& subject, const Row& row, const Bytes& bytes, double plain_seconds) {
  const auto peak = static_cast<double>(bytes.peak);
  std::cout << "| " << subject.name << " | " << std::fixed << std::setprecision(3)
            << static_cast<double>(row.asked) / peak;
  if (!row.failure.empty() || row.ratios.empty()) {
    std::cout << " | - | - | - | - | " << (row.failure.empty() ? "not planned" : row.failure)
              << " |" << std::endl;
    return;
  }
  const BudgetedStep last = *row.budget.last_step();
  const bool is_predicted = !row.predicted.empty() && last.is_planned();
  const auto text = [&](double part) { return is_predicted ? in_percent(part) : "-"; };
  std::cout << " | " << static_cast<double>(row.peak) / peak << " | " << text(row.worst_peak_error)
            << " | " << with_quartiles(row.ratios, 3) << " | "
            << text(is_predicted ? median(row.predicted) / median(row.seconds) - 1 : 0) << " | "
            << text((last.predicted_seconds - last.bound_seconds) / plain_seconds) << " |"
            << std::endl;
}

// Returns the ratio of the times of two steps, which take turns at being the first.
double ratio_of(const std::function<double()>& step, const std::function<double()>& other,
                bool is_first) {
  const double first = is_first ? step() : other();
  const double second = is_first ? other() : step();
  return is_first ? first / second : second / first;
}

void print_beside(const Subject& subject, const std::string& what,
                  const std::vector<double>& ratios) {
  std::cerr << subject.name << ": " << what << ": " << with_quartiles(ratios, 3) << std::endl;
}

void measure(const Subject& subject, int rounds) {
  const Bytes bytes = bytes_of(subject);
  std::vector<std::unique_ptr<Row>> rows;
  for (const double part : kParts) {
    const auto growth = static_cast<std::int64_t>(part * static_cast<double>(bytes.peak));
    if (growth >= bytes.smallest) {
      rows.push_back(std::make_unique<Row>(growth, bytes));
    }
  }
  rows.push_back(std::make_unique<Row>(bytes.smallest, bytes));
  MemoryBudget roomy({.peak_bytes = bytes.before + 2 * bytes.peak});
  MemoryBudget unnumbered;
  for (int i = 0; i < kWarmUps; ++i) {
    budgeted_step(subject, roomy);
    budgeted_step(subject, unnumbered);
    taped_step(subject);
    for (const auto& row : rows) {
      subject.module->zero_grad();
      step(subject, *row, bytes, 1, /*counts=*/false);
    }
  }
  std::vector<double> plain;
  std::vector<double> bookkeeping;
  std::vector<double> by_default;
  for (int round = 0; round < rounds; ++round) {
    plain.push_back(plain_step(subject));
    for (const auto& row : rows) {
      subject.module->zero_grad();
      step(subject, *row, bytes, plain.back(), /*counts=*/true);
    }
    const bool is_even = round % 2 == 0;
    bookkeeping.push_back(ratio_of([&] { return budgeted_step(subject, roomy); },
                                   [&] { return taped_step(subject); }, is_even));
    by_default.push_back(ratio_of([&] { return budgeted_step(subject, unnumbered); },
                                  [&] { return plain_step(subject); }, is_even));
  }
  for (const auto& row : rows) {
    print(subject, *row, bytes, median(plain));
  }
  print_beside(subject, "a plan that retains all, beside the same tape without a plan",
               bookkeeping);
  print_beside(subject, "a budget without a number, beside a plain step", by_default);
}

}  // namespace
}  // namespace reprise::bench

int main(int argc, char** argv) {
  CLI::App app("Steps within budgets of memory, as a table in Markdown.");
  std::string only;
  int rounds = 15;
  int threads = 1;
  app.add_option("--only", only, "models whose name contains this");
  app.add_option("--rounds", rounds, "steps at each budget");
  app.add_option("--threads", threads, "of LibTorch");
  CLI11_PARSE(app, argc, argv);
  reprise::bench::keep_freed_memory();
  at::set_num_threads(threads);
  reprise::install_cpu_memory_counter();
  std::cout << "| model | asked | peak | off the predicted peak, % | time / plain (quartiles) | "
               "predicted time, % off | at most to gain, % |\n"
            << "| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n";
  for (const std::string& name : reprise::bench::kSubjects) {
    if (name.find(only) != std::string::npos) {
      reprise::bench::measure(reprise::bench::make_subject(name), rounds);
    }
  }
  return 0;
}
