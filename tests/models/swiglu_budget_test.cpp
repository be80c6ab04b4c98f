// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The model of pytorch#197838 within budgets of .05 to .30 of its activations. There the memory
// budget of torch.compile takes more memory for a smaller budget.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "bench/models/model.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/planner/planner.h"
#include "tests/testing/modules.h"

namespace reprise::testing::swiglu_budget_test {
namespace {

const std::vector<double> kParts = {0.30, 0.25, 0.20, 0.15, 0.10, 0.05};

class SwigluBudgetTest : public ::testing::Test {
 protected:
  SwigluBudgetTest() {
    install_cpu_memory_counter();
    torch::manual_seed(0);
    model_ = bench::swiglu::make({.batch = 2});
    forward().backward();
    zero_gradients();
    forward().backward();
    for (const at::Tensor& parameter : model_.module->parameters()) {
      plain_gradients_.push_back(parameter.grad().clone());
    }
    zero_gradients();
    before_ = cpu_memory().current_bytes;
    const at::Tensor loss = forward();
    activations_ = cpu_memory().current_bytes - before_;
  }

  at::Tensor forward() const { return bench::run_plainly(model_); }

  // Their memory is there before each step, so that a budget is for activations.
  void zero_gradients() const { model_.module->zero_grad(/*set_to_none=*/false); }

  bool step_fits(MemoryBudget& budget) const {
    zero_gradients();
    try {
      BudgetScope scope(budget);
      const at::Tensor loss = forward();
      std::move(scope).close();
      loss.backward();
      return true;
    } catch (const BudgetExceededError&) {
      return false;
    }
  }

  void expect_gradients_of_plain_step() const {
    const std::vector<at::Tensor> parameters = model_.module->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      ASSERT_TRUE(bitwise_equal(parameters[i].grad(), plain_gradients_[i])) << i;
    }
  }

  std::int64_t bytes_for(double part) const {
    return static_cast<std::int64_t>(part * static_cast<double>(activations_));
  }

  bench::Model model_;
  std::vector<at::Tensor> plain_gradients_;
  std::int64_t before_ = 0;
  std::int64_t activations_ = 0;
};

TEST_F(SwigluBudgetTest, ASmallerBudgetNeverTakesMoreMemory) {
  std::int64_t larger_peak = std::numeric_limits<std::int64_t>::max();
  for (const double part : kParts) {
    SCOPED_TRACE(part);
    MemoryBudget budget({.peak_bytes = before_ + bytes_for(part)});
    // The smallest one may be too small for a step of which nothing is known, but not for a plan.
    EXPECT_TRUE(step_fits(budget) || part == kParts.back());
    // The second of these follows its plan for the first time, and the third knows what the plan
    // has left out, unless the times of the step have led to another plan.
    const auto is_predicted = [&budget] {
      return budget.last_step()->peak_bytes == budget.last_step()->predicted_peak_bytes;
    };
    for (int i = 0; i < 3 || (i < 8 && !is_predicted()); ++i) {
      ASSERT_TRUE(step_fits(budget));
      EXPECT_TRUE(budget.last_step()->is_planned());
      EXPECT_LE(budget.last_step()->peak_bytes, before_ + bytes_for(part));
      expect_gradients_of_plain_step();
    }
    const BudgetedStep last = *budget.last_step();
    EXPECT_EQ(last.peak_bytes, last.predicted_peak_bytes);
    EXPECT_LT(last.peak_bytes, larger_peak);
    larger_peak = last.peak_bytes;
  }
}

TEST_F(SwigluBudgetTest, ASmallerBudgetIsNeverPlannedToBeFaster) {
  StepProfileGuard profile;
  forward().backward();
  const planner::Trace trace = std::move(profile).finish();
  planner::Planner planner(trace);
  double shorter = 0;
  for (const double part : kParts) {
    SCOPED_TRACE(part);
    const auto found = planner.plan(trace.bytes_before_step() + bytes_for(part));
    ASSERT_TRUE(found.has_value());
    EXPECT_GE(found->simulation.seconds, shorter);
    EXPECT_LE(found->bound_seconds, found->simulation.seconds);
    shorter = found->simulation.seconds;
  }
}

}  // namespace
}  // namespace reprise::testing::swiglu_budget_test
