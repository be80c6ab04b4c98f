// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The first step within a budget: nothing is known of it in forward, and all of forward is when
// backward begins.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/budget/smallest_budget.h"
#include "reprise/engine/profile/step_recorder.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::budget_first_step_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class BudgetFirstStepTest : public BudgetedSteps {
 protected:
  // D = C D / |C D|, over and over, as in pytorch#125591.
  static at::Tensor loop(const Tensors& weights, int count) {
    at::Tensor state = at::linspace(0.1, 1, kWidth * kWidth).view({kWidth, kWidth});
    for (int i = 0; i < count; ++i) {
      state = weights[0].matmul(state);
      state = state / state.norm();
    }
    return state.square().mean();
  }

  EqualTimes equal_times;
  static constexpr std::int64_t kStateBytes = kWidth * kWidth * 4;

  // Returns how many matrix products a step runs within a budget of so many states beside what was
  // there before it.
  static std::vector<std::size_t> products(const Tensors& weights, int count, int states,
                                           int steps) {
    zero_gradients(weights);
    const std::int64_t peak_bytes = cpu_memory().current_bytes + states * kStateBytes;
    MemoryBudget budget({.peak_bytes = peak_bytes});
    std::vector<std::size_t> counts;
    for (int i = 0; i < steps; ++i) {
      const OpRecorder recorder;
      step(weights, &budget, [&](const Tensors& w) { return loop(w, count); });
      EXPECT_LE(budget.last_step()->peak_bytes, peak_bytes);
      counts.push_back(recorder.count("aten::mm"));
    }
    return counts;
  }
};

// With few states, each is computed again some times; without a plan, the first step would run
// hundreds of products more than the others.
TEST_F(BudgetFirstStepTest, RunsAboutAsManyOperatorsAsPlannedOnes) {
  const Tensors weights = make_weights(1);
  constexpr int kCount = 200;
  for (const int states : {12, 14, 20, 30}) {
    const std::vector<std::size_t> counts = products(weights, kCount, states, 4);
    EXPECT_LE(static_cast<double>(counts[0]), 1.3 * static_cast<double>(counts[3]))
        << states << " states: " << counts[0] << ", " << counts[3];
  }
}

TEST_F(BudgetFirstStepTest, KeepsBitsAndBudgetOfLoops) {
  const Tensors weights = make_weights(1);
  for (const int count : {20, 150}) {
    for (const double part : {0.25, 0.5, 0.8}) {
      expect_to_fit(
          weights, part, [&](const Tensors& w) { return loop(w, count); }, 3);
    }
  }
}

// No plan is made for a backward on another thread, and the guard alone does not come to an end.
TEST_F(BudgetFirstStepTest, EndsWhereOperatorsRunAgainAndAgain) {
  const Tensors weights = make_weights(1);
  MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + 8 * kStateBytes});
  engine_internal::set_most_reruns(3);
  const absl::Cleanup reset = [] { engine_internal::set_most_reruns(100); };
  const auto on_other_thread = [](const at::Tensor& loss) {
    std::exception_ptr error;
    std::thread([&] {
      try {
        loss.backward();
      } catch (...) {
        error = std::current_exception();
      }
    }).join();
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  };
  EXPECT_THAT(
      [&] {
        step(
            weights, &budget, [](const Tensors& w) { return loop(w, 150); }, on_other_thread);
      },
      ThrowsMessage<BudgetExceededError>(
          HasSubstr("operators have run again, over 3 times as many as forward has")));
}

// Forward retains what a plan would not: it is freed when backward begins.
TEST_F(BudgetFirstStepTest, FitsWhereBackwardNeedsMoreThanForward) {
  const Tensors weights = make_weights(4);
  const Forward forward = [](const Tensors& w) {
    at::Tensor h = at::linspace(0.1, 1, 512 * kWidth).view({512, kWidth});
    return layers(w, h);
  };
  for (const double part : {0.45, 0.55, 0.65, 0.75, 0.85, 0.95}) {
    expect_to_fit(weights, part, forward, 2);
  }
}

}  // namespace
}  // namespace reprise::testing::budget_first_step_test
