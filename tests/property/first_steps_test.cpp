// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Steps of programs made up from seeds within 1.1 of the smallest plan: the first one fits, unless
// no plan completes the state that forward has left, and runs about as many operators as planned
// ones do. REPRISE_PROGRAMS and REPRISE_FIRST_SEED set how many programs and from which seed on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/budget/backward_forecast.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/planner/planner.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/property/layered_program.h"
#include "tests/property/random_program.h"
#include "tests/testing/op_recorder.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::first_steps_test {
namespace {

constexpr auto kPrograms = cases<std::uint64_t>(16, 4);

// The step as it was expected when its backward began.
struct Forecast {
  planner::Trace trace;
  std::int64_t peak_bytes;
};
std::optional<Forecast> g_forecast;

struct Program {
  Tensors leaves;
  std::function<at::Tensor()> loss;
};

struct Step {
  std::string error;  // empty: it fits
  std::size_t operators = 0;
  Tensors gradients;
};

class FirstStepsTest : public UnderPolicies {
 protected:
  FirstStepsTest() {
    install_cpu_memory_counter();
    engine_internal::set_forecast_observer(
        [](const planner::Trace& trace, std::int64_t peak_bytes) {
          g_forecast = {trace, peak_bytes};
        });
  }
  ~FirstStepsTest() override { engine_internal::set_forecast_observer(nullptr); }

  static Step step(const Program& program, MemoryBudget* budget) {
    torch::manual_seed(11);
    g_forecast.reset();
    Step found;
    const OpRecorder operators;
    try {
      const at::Tensor loss = within(budget, program.loss);
      found.gradients = torch::autograd::grad({loss}, program.leaves, {}, {}, false,
                                              /*allow_unused=*/true);
    } catch (const BudgetExceededError& error) {
      found.error = error.what_without_backtrace();
    }
    found.operators = operators.names().size();
    if (!found.error.empty()) {
      hooks_internal::release_nodes_of_failed_backward();
    }
    return found;
  }

  // Returns the smallest peak of a plan beyond the bytes before the step.
  static std::int64_t smallest_growth(const Program& program) {
    MemoryBudget budget({.peak_bytes = std::int64_t{1} << 40});
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(step(program, &budget).error, "");
    }
    const planner::Trace trace = budget.trace().value();
    planner::Planner planner(trace);
    return planner.smallest_peak().simulation.peak_bytes - trace.bytes_before_step();
  }

  // Of the last step, if it has come to its backward.
  static bool can_be_completed() {
    if (!g_forecast) {
      return true;
    }
    try {
      planner::Planner planner(g_forecast->trace);
      return planner.smallest_peak().simulation.peak_bytes <= g_forecast->peak_bytes;
    } catch (const std::invalid_argument&) {
      return false;
    }
  }

  // Runs a step, and expects its budget and bits to be kept. Returns its operators; 0 if the step
  // does not fit, and may not be completed.
  static std::size_t expect_to_fit(const Program& program, MemoryBudget& budget,
                                   std::int64_t peak_bytes, const Tensors& expected,
                                   bool is_first) {
    reset_peak_cpu_memory();
    const Step got = step(program, &budget);
    EXPECT_LE(cpu_memory().peak_bytes, peak_bytes);
    EXPECT_EQ(live_frames(), 0);
    if (got.error.empty()) {
      expect_same_bits(got.gradients, expected);
      return got.operators;
    }
    EXPECT_TRUE(is_first && !can_be_completed()) << got.error;
    return 0;
  }

  // Runs steps of programs within 1.1 of the smallest plan. Returns, by program, the ratio of the
  // operators of the first step to those of a planned one.
  static std::vector<double> ratios(const std::function<Program(std::uint64_t seed)>& make) {
    const EqualTimes equal_times;
    const std::uint64_t first_seed = number_from("REPRISE_FIRST_SEED", 0);
    const std::uint64_t count = number_from("REPRISE_PROGRAMS", kPrograms);
    constexpr int kSteps = 3;
    std::vector<double> ratios;
    for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
      SCOPED_TRACE(c10::str("seed ", seed));
      torch::manual_seed(seed);
      const Program program = make(seed);
      const Tensors expected = step(program, nullptr).gradients;
      const std::int64_t growth = smallest_growth(program);
      const std::int64_t peak_bytes = cpu_memory().current_bytes + growth + growth / 10;
      MemoryBudget budget({.peak_bytes = peak_bytes});
      std::vector<std::size_t> operators;
      for (int i = 0; i < kSteps; ++i) {
        SCOPED_TRACE(c10::str("step ", i));
        operators.push_back(expect_to_fit(program, budget, peak_bytes, expected, i == 0));
      }
      if (operators.front() == 0) {
        std::cout << "seed " << seed << ": no plan completes what forward has left\n";
      } else {
        ratios.push_back(static_cast<double>(operators.front()) /
                         static_cast<double>(operators.back()));
      }
    }
    return ratios;
  }

  static void expect_few_operators(std::vector<double> ratios) {
    ASSERT_FALSE(ratios.empty());
    std::sort(ratios.begin(), ratios.end());
    const auto quantile = [&](double part) {
      return ratios[static_cast<std::size_t>(part * static_cast<double>(ratios.size() - 1))];
    };
    const auto many = std::count_if(ratios.begin(), ratios.end(),
                                    [](double ratio) { return ratio > kMostOperators; });
    std::cout << ratios.size() << " programs; operators of first steps to those of planned ones: "
              << "median " << quantile(0.5) << ", 0.9 " << quantile(0.9) << ", 0.99 "
              << quantile(0.99) << ", most " << quantile(1) << "; " << many << " above "
              << kMostOperators << "\n";
    EXPECT_LE(quantile(0.99), kMostOperators);
    EXPECT_LE(many, static_cast<std::ptrdiff_t>((ratios.size() + kFew - 1) / kFew));
  }

  static constexpr double kMostOperators = 1.3;
  static constexpr std::size_t kFew = 200;  // one program in so many may run more
};

TEST_F(FirstStepsTest, OfRandomProgramsFit) {
  expect_few_operators(ratios([](std::uint64_t seed) {
    constexpr Form kForms[] = {Form::kPlain, Form::kPlain, Form::kFunction, Form::kScope};
    std::mt19937_64 random(seed);
    const Form form = kForms[pick(random, 4)];
    const Tensors leaves = {leaf({4, 4}), leaf({4, 4})};
    const at::Tensor outside = torch::randn({4});
    const RandomProgram program(seed, 5 + static_cast<int>(seed % 40));
    return Program{leaves, [=] {
                     outside.fill_(0.5);
                     return program.run(form, leaves, outside)[0].sum();
                   }};
  }));
}

TEST_F(FirstStepsTest, OfLayeredGraphsFit) {
  expect_few_operators(ratios([](std::uint64_t seed) {
    const Tensors leaves = LayeredProgram::make_leaves();
    return Program{leaves, [=] { return LayeredProgram(seed).run(leaves); }};
  }));
}

}  // namespace
}  // namespace reprise::testing::first_steps_test
