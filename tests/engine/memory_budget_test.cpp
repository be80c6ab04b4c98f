// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/memory_budget.h"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "reprise/engine/budget/mebibytes.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/planner/largest_batch.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::memory_budget_test {
namespace {

using ::testing::HasSubstr;

using MemoryBudgetTest = BudgetedSteps;

TEST_F(MemoryBudgetTest, StaysWithinTheBudgetWithTheBitsOfThePlainStep) {
  const Tensors weights = make_weights(12);
  const at::Tensor x = torch::randn({512, kWidth});
  for (const double part : {1.0, 0.7, 0.5, 0.3, 0.25}) {
    expect_to_fit(weights, part, [&](const Tensors& w) { return layers(w, x); });
  }
}

// pytorch#190758: with a budget in torch.compile, dropout draws again in backward.
TEST_F(MemoryBudgetTest, DropoutIsThatOfForward) {
  const Tensors weights = make_weights(4);
  const at::Tensor x = torch::randn({512, kWidth});
  expect_to_fit(weights, 0.5, [&](const Tensors& w) {
    at::Tensor h = x;
    for (const at::Tensor& weight : w) {
      h = at::dropout(h.matmul(weight), 0.5, /*train=*/true);
      h = h + 0.1 * at::rand_like(h) * h;
    }
    return h.square().mean();
  });
}

TEST_F(MemoryBudgetTest, PredictsThePeakAndTellsTheDistanceToTheBestPlan) {
  const Tensors weights = make_weights(12);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  MemoryBudget budget({.peak_bytes = plain.peak_bytes / 2});
  EXPECT_EQ(budget.report(),
            "memory budget: " + engine_internal::in_mebibytes(plain.peak_bytes / 2) +
                " at the peak of a step\nno step has ended\n");
  step(weights, &budget, forward);
  EXPECT_THAT(budget.report(), HasSubstr("no plan: the step was new to the budget"));
  for (int i = 0; i < 3; ++i) {
    step(weights, &budget, forward);
    EXPECT_THAT(budget.report(), HasSubstr("plan: retains"));
  }
  const BudgetedStep last = *budget.last_step();
  EXPECT_EQ(last.peak_bytes, *last.predicted_peak_bytes);
  EXPECT_EQ(last.evicted_bytes, 0);
  EXPECT_LE(last.bound_seconds, last.predicted_seconds);
  EXPECT_LT(last.plain_seconds, last.predicted_seconds);
  EXPECT_THAT(budget.report(), HasSubstr("no plan within this peak is faster by more than"));
}

TEST_F(MemoryBudgetTest, ExplainsThePlanOfTheLastStep) {
  const Tensors weights = make_weights(6);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  MemoryBudget budget({.peak_bytes = plain.peak_bytes / 2});
  EXPECT_EQ(budget.explain("aten::gelu"), "");
  EXPECT_FALSE(budget.trace().has_value());
  step(weights, &budget, forward);
  EXPECT_THAT(budget.explain("aten::gelu"), HasSubstr("recomputed once: saves 128 KiB"));
  EXPECT_THAT(budget.explain("aten::mm"), HasSubstr("of forward"));
  EXPECT_THROW(static_cast<void>(budget.explain("aten::silu")), std::invalid_argument);
  ASSERT_TRUE(budget.trace().has_value());
  const planner::Trace trace = *budget.trace();
  EXPECT_NO_THROW(trace.validate());
  EXPECT_EQ(std::count_if(trace.operators.begin(), trace.operators.end(),
                          [](const auto& op) { return op.name == "aten::gelu"; }),
            6);
}

// Predicted from two smaller batches, to a tenth: a smaller one fits, and a larger one does not.
TEST_F(MemoryBudgetTest, TheLargestBatchFits) {
  const Tensors weights = make_weights(6);
  const auto forward_of = [](std::int64_t batch) {
    return [x = torch::randn({batch, kWidth})](const Tensors& w) { return layers(w, x); };
  };
  const auto trace_of = [&](std::int64_t batch) {
    const auto forward = forward_of(batch);
    MemoryBudget budget({.max_overhead = 0.0});
    step(weights, &budget, forward);
    step(weights, &budget, forward);
    return budget.trace().value();
  };
  const planner::Trace small = trace_of(64);
  const planner::Trace large = trace_of(128);
  constexpr std::int64_t kRoom = std::int64_t{3} << 20;
  const auto found = planner::find_largest_batch({64, &small}, {128, &large},
                                                 {.peak_bytes = small.bytes_before_step() + kRoom});
  ASSERT_TRUE(found.has_value());
  EXPECT_GT(found->batch, 512);
  const auto fits = [&](std::int64_t batch) {
    zero_gradients(weights);
    const std::int64_t batch_of_small = 64 * kWidth * 4;  // in its bytes before the step
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + batch_of_small + kRoom});
    const auto forward = forward_of(batch);
    bool is_last_within = false;
    for (int i = 0; i < 4; ++i) {
      try {
        step(weights, &budget, forward);
        is_last_within = true;
      } catch (const BudgetExceededError&) {
        is_last_within = false;
      }
    }
    return is_last_within;
  };
  EXPECT_TRUE(fits(found->batch - found->batch / 10));
  EXPECT_FALSE(fits(found->batch + found->batch / 5));
}

TEST_F(MemoryBudgetTest, AnOverheadInsteadOfAPeak) {
  const Tensors weights = make_weights(6);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  const std::int64_t clones = 6 * kWidth * kWidth * 4;  // of the plain step's gradients
  MemoryBudget none({.max_overhead = 0.0});
  MemoryBudget any({.max_overhead = 100.0});
  for (int i = 0; i < 3; ++i) {
    const Outcome without = step(weights, &none, forward);
    const Outcome with = step(weights, &any, forward);
    expect_same_bits(without.gradients, plain.gradients);
    expect_same_bits(with.gradients, plain.gradients);
    EXPECT_LE(without.peak_bytes, plain.peak_bytes + clones);
    if (i > 0) {
      EXPECT_LT(with.peak_bytes, plain.peak_bytes / 2);
    }
  }
}

TEST_F(MemoryBudgetTest, ABudgetThatIsTooSmallIsAnErrorAndNeverExceeded) {
  const Tensors weights = make_weights(4);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  step(weights, nullptr, forward);
  zero_gradients(weights);
  const std::int64_t before = cpu_memory().current_bytes;
  MemoryBudget budget({.peak_bytes = before + 300000});
  for (int i = 0; i < 3; ++i) {
    reset_peak_cpu_memory();
    try {
      step(weights, &budget, forward);
      ADD_FAILURE() << "no error";
    } catch (const c10::OutOfMemoryError& error) {
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr("a step does not fit into its budget"));
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr(c10::str(before + 300000, " bytes")));
    }
    EXPECT_LE(cpu_memory().peak_bytes, before + 300000);
    EXPECT_EQ(live_frames(), 0);
  }
  step(weights, nullptr, forward);  // the limit ends with its step
}

TEST_F(MemoryBudgetTest, NoGradientsNoEffect) {
  const Tensors weights = make_weights(2);
  const at::Tensor x = torch::randn({512, kWidth});
  MemoryBudget budget({.peak_bytes = 1});
  const torch::NoGradGuard no_grad;
  const BudgetScope scope(budget);
  EXPECT_NO_THROW(layers(weights, x));
  EXPECT_FALSE(budget.last_step().has_value());
}

TEST_F(MemoryBudgetTest, RefusesRegionsAround) {
  MemoryBudget budget({.peak_bytes = std::int64_t{1} << 40});
  const CheckpointScope region;
  EXPECT_THROW(BudgetScope scope(budget), CheckpointError);
}

}  // namespace
}  // namespace reprise::testing::memory_budget_test
