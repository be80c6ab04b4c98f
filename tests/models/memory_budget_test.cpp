// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Each model of the zoo within budgets: the peak is never above, the gradients are those of the
// plain step, and the peak is the predicted one.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "bench/zoo/stepped_model.h"
#include "bench/zoo/zoo.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/stores.h"
#include "reprise/planner/planner.h"
#include "tests/models/model_names.h"
#include "tests/testing/elsewhere_store.h"
#include "tests/testing/equal_times.h"
#include "tests/testing/modules.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::memory_budget_test {
namespace {

constexpr std::int64_t kScale = 2;  // of the batches

using Stores = std::vector<std::shared_ptr<ActivationStore>>;

class MemoryBudgetTest : public ::testing::TestWithParam<std::string> {
 protected:
  MemoryBudgetTest() {
    stepped_.reset();
    before_ = cpu_memory().current_bytes;
  }

  zoo::Step step_within(MemoryBudget& budget) {
    return stepped_.run([&] {
      const BudgetScope scope(budget);
      return stepped_.model().loss({});
    });
  }

  // Returns the smallest peak that the planner finds, beyond the bytes before the step.
  std::int64_t smallest_growth() {
    StepProfileGuard profile;
    stepped_.model().loss({}).backward();
    const planner::Trace trace = std::move(profile).finish();
    stepped_.reset();
    return planner::Planner(trace).smallest_peak().simulation.peak_bytes -
           trace.bytes_before_step();
  }

  // Runs steps with that many bytes beyond those before the step, of which the first ones may be
  // refused. Returns the last one.
  BudgetedStep expect_to_fit(std::int64_t growth, int may_refuse, const Stores& stores = {}) {
    SCOPED_TRACE(c10::str(growth, " of ", stepped_.plain().peak, " bytes"));
    MemoryBudget budget({.peak_bytes = before_ + growth, .stores = stores});
    for (int i = 0; i < 4 + may_refuse; ++i) {
      SCOPED_TRACE(i);
      expect_step_to_fit(budget, growth, i < may_refuse);
    }
    EXPECT_TRUE(budget.last_step()->is_planned());
    return *budget.last_step();
  }

  void expect_as_predicted(const BudgetedStep& last) {
    EXPECT_NEAR(static_cast<double>(last.peak_bytes - before_),
                static_cast<double>(*last.predicted_peak_bytes - before_),
                0.06 * static_cast<double>(stepped_.plain().peak));
    EXPECT_LE(last.bound_seconds, last.predicted_seconds);
  }

  // Runs a step of a new budget, which knows the plans of this file. Returns the bytes that its
  // error names; nothing if it fits.
  std::optional<std::int64_t> named_by_error(std::int64_t peak_bytes, const std::string& plans) {
    MemoryBudget budget({.peak_bytes = peak_bytes});
    budget.load_plans(plans);
    try {
      expect_same_bits(step_within(budget).results, stepped_.plain().results);
      return std::nullopt;
    } catch (const BudgetExceededError& error) {
      const std::string message = error.what_without_backtrace();
      static const std::regex kNamed("budget that a plan holds is ([0-9]+) bytes; no plan");
      std::smatch match;
      EXPECT_TRUE(std::regex_search(message, match, kNamed)) << message;
      return match.empty() ? 0 : std::stoll(match[1]);
    }
  }

  // Runs a first step with that many bytes beyond those before the step. Returns the bytes that its
  // error names, likewise; nothing if the step fits.
  std::optional<std::int64_t> named_in_first_step(std::int64_t growth) {
    MemoryBudget budget({.peak_bytes = before_ + growth});
    std::optional<std::int64_t> named;
    try {
      expect_same_bits(step_within(budget).results, stepped_.plain().results);
    } catch (const BudgetExceededError& error) {
      const std::string message = error.what_without_backtrace();
      static const std::regex kNamed(
          "(?:plan holds is|plan holds a budget of|needs a budget of) ([0-9]+) bytes");
      std::smatch match;
      EXPECT_TRUE(std::regex_search(message, match, kNamed)) << message;
      named = match.empty() ? 0 : std::stoll(match[1]) - before_;
    }
    if (named) {
      stepped_.reset();
      hooks_internal::release_nodes_of_failed_backward();
    }
    return named;
  }

  // Returns the message of the error, of which numbers beside each other are in order; empty if the
  // step fits.
  std::string expect_to_fit_or_fail(MemoryBudget& budget, std::int64_t growth) {
    std::string message;
    try {
      const zoo::Step step = step_within(budget);
      EXPECT_LE(step.bytes_before + step.peak, before_ + growth);
      expect_same_bits(step.results, stepped_.plain().results);
    } catch (const BudgetExceededError& error) {
      message = error.what_without_backtrace();
    }
    if (!message.empty()) {
      EXPECT_LE(cpu_memory().peak_bytes, before_ + growth);
      expect_bound_beside_number(message);
      stepped_.reset();
      hooks_internal::release_nodes_of_failed_backward();
    }
    return message;
  }

  static void expect_bound_beside_number(const std::string& message) {
    static const std::regex kForward("needs a budget of [0-9]+ bytes, a lower bound");
    static const std::regex kPlanned(
        "plan holds (?:is|a budget of) ([0-9]+) bytes[^;]*; no plan holds one below ([0-9]+) "
        "bytes");
    std::smatch match;
    if (std::regex_search(message, match, kPlanned)) {
      EXPECT_LE(std::stoll(match[2]), std::stoll(match[1])) << message;
    } else {
      EXPECT_TRUE(std::regex_search(message, kForward)) << message;
    }
  }

  void expect_step_to_fit(MemoryBudget& budget, std::int64_t growth, bool may_refuse) {
    zoo::Step step;
    try {
      step = step_within(budget);
    } catch (const BudgetExceededError& error) {
      EXPECT_TRUE(may_refuse) << error.what_without_backtrace();
      return;
    }
    // A refused step leaves bytes in LibTorch's queue until the next backward.
    const std::int64_t peak_bytes = step.bytes_before + step.peak;
    EXPECT_LE(peak_bytes, before_ + growth);
    EXPECT_EQ(budget.last_step()->peak_bytes, peak_bytes);
    expect_same_bits(step.results, stepped_.plain().results);
  }

  zoo::SteppedModel stepped_{GetParam(), kScale};
  std::int64_t before_ = 0;
};

TEST_P(MemoryBudgetTest, FitsIntoEachBudgetThatAPlanFitsInto) {
  const std::int64_t smallest = smallest_growth();
  for (const std::int64_t tenths : {8, 5, 3}) {
    if (const std::int64_t growth = stepped_.plain().peak * tenths / 10;
        growth >= smallest + smallest / 10) {
      // Near the smallest peak the first step may be refused: it decides without knowing what
      // follows.
      expect_as_predicted(expect_to_fit(growth, growth < smallest * 3 / 2 ? 2 : 0));
    }
  }
  constexpr std::int64_t kPart = 20;
  constexpr std::int64_t kLeast = 8 << 10;
  expect_as_predicted(expect_to_fit(smallest + std::max(smallest / kPart, kLeast), 3));
}

TEST_P(MemoryBudgetTest, FitsWithStores) {
  const std::int64_t growth =
      std::max(stepped_.plain().peak / 2, smallest_growth() * 3 / 2);  // for the first step
  expect_to_fit(growth, 2, {stores::packed(), stores::disk()});
  expect_to_fit(growth, 2, {std::make_shared<ElsewhereStore>()});
  expect_to_fit(growth, 2, {std::make_shared<ElsewhereStore>(std::chrono::microseconds(200))});
}

// When a step is known, the error of a budget that is too small names one that fits.
TEST_P(MemoryBudgetTest, NamesTheSmallestBudget) {
  const std::string plans =
      ::testing::TempDir() + "/reprise_smallest_" + std::to_string(::getpid()) + ".plans";
  MemoryBudget large({.peak_bytes = before_ + 2 * stepped_.plain().peak});
  for (int i = 0; i < 3; ++i) {
    step_within(large);
    stepped_.reset();
  }
  large.save_plans(plans);
  const std::optional<std::int64_t> named = named_by_error(before_ + smallest_growth() / 2, plans);
  ASSERT_TRUE(named.has_value());
  stepped_.reset();
  step_within(large);  // frees what the refused step has left in LibTorch's queue
  stepped_.reset();
  EXPECT_EQ(named_by_error(*named, plans), std::nullopt);
  std::remove(plans.c_str());
}

// A first step's error names an estimate: what forward needs up to there, or, in backward, the
// smallest plan of the expected step. The next step is given as much, of a new budget. From 0.8 of
// the smallest budget, the numbers lead to one that fits, near the smallest.
TEST_P(MemoryBudgetTest, NamesBudgetsThatLeadToOneThatFits) {
  const EqualTimes equal_times;
  const std::int64_t smallest = smallest_growth();
  std::int64_t growth = smallest / 10 * 8;
  std::string course;
  constexpr int kMostSteps = 10;
  int steps = 0;
  for (; steps < kMostSteps; ++steps) {
    stepped_.reset();
    const std::optional<std::int64_t> named = named_in_first_step(growth);
    if (!named) {
      break;
    }
    ASSERT_GT(*named, growth) << course;
    growth = *named;
    course += c10::str(" ", static_cast<double>(growth) / static_cast<double>(smallest));
  }
  std::cout << GetParam() << ", from 0.8 of the smallest budget:" << course << "\n";
  EXPECT_LT(steps, kMostSteps);
  // The smallest plans that are found for traces that are nearly the same differ by as much.
  constexpr double kMost = 1.05;
  EXPECT_LE(static_cast<double>(growth), kMost * static_cast<double>(smallest));
}

// A budget below the smallest plan is not refused beforehand: forward begins, and either the step
// fits or it ends with the error. After that, the next step is tried as well.
TEST_P(MemoryBudgetTest, TriesBudgetsBelowTheSmallestPlan) {
  const EqualTimes equal_times;
  const std::int64_t growth = smallest_growth() / 100 * 97;
  MemoryBudget budget({.peak_bytes = before_ + growth});
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    stepped_.reset();
    const OpRecorder recorder;
    const std::string error = expect_to_fit_or_fail(budget, growth);
    EXPECT_GT(recorder.names().size(), 0);
    std::cout << GetParam() << ", step " << i << " at 0.97 of the smallest budget: "
              << (error.empty() ? "fits" : error.substr(0, error.find(". "))) << "\n";
  }
}

INSTANTIATE_TEST_SUITE_P(Zoo, MemoryBudgetTest, ::testing::ValuesIn(model_names()),
                         [](const auto& named) { return identifier_of(named.param); });

}  // namespace
}  // namespace reprise::testing::memory_budget_test
