// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Several steps of a budget in flight: the forwards of a stage of a pipeline, whose backwards come
// later, in the orders of 1F1B and of GPipe, and losses with one backward.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "examples/06_budgets_on_ranks/one_forward_one_backward.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_in_flight_test {
namespace {

using budgets_on_ranks::one_forward_one_backward;

class BudgetInFlightTest : public BudgetedSteps {
 protected:
  struct Run {
    Tensors gradients;
    std::int64_t growth = 0;
    std::vector<BudgetedStep> steps;
  };

  static at::Tensor stage(const Tensors& weights, int number) {
    at::Tensor h = at::linspace(0.1 * (number + 1), 1, 256 * kWidth).view({256, kWidth});
    for (const at::Tensor& weight : weights) {
      h = h + at::dropout(at::gelu(h.matmul(weight)), 0.2, /*train=*/true);
    }
    return h;
  }

  // Returns the output whose backward is next.
  static at::Tensor take(std::deque<at::Tensor>& waiting, char next) {
    at::Tensor output = next == 'L' ? std::move(waiting.back()) : std::move(waiting.front());
    next == 'L' ? waiting.pop_back() : waiting.pop_front();
    while (next == 'S' && !waiting.empty()) {
      output = output + waiting.front();
      waiting.pop_front();
    }
    return output;
  }

  // budget: null for plain steps.
  // order: besides "F" and "B", "L" is the backward of the latest forward, "S" one of all.
  static Run run(const Tensors& weights, MemoryBudget* budget, const std::string& order) {
    zero_gradients(weights);
    torch::manual_seed(5);
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    Run found;
    std::deque<at::Tensor> waiting;
    int number = 0;
    for (const char next : order) {
      if (next == 'F') {
        waiting.push_back(within(budget, [&] { return stage(weights, number); }));
        ++number;
        continue;
      }
      at::Tensor output = take(waiting, next);
      const at::Tensor gradient = at::ones_like(output);
      output.backward(gradient);
      output.reset();
      if (budget != nullptr) {
        found.steps.push_back(*budget->last_step());
      }
    }
    found.growth = cpu_memory().peak_bytes - before;
    for (const at::Tensor& weight : weights) {
      found.gradients.push_back(weight.grad().clone());
    }
    return found;
  }

  // Iterations within that part of the plain one's memory: all keep the bits and the budget. When
  // plans have been made for as many as are in flight, nothing is evicted.
  static void expect_to_fit(const std::string& order, double part) {
    SCOPED_TRACE(order + c10::str(", part ", part));
    constexpr int kIterations = 8;
    const Tensors weights = make_weights(6);
    const Run plain = run(weights, nullptr, order);
    zero_gradients(weights);
    const std::int64_t peak_bytes =
        cpu_memory().current_bytes +
        static_cast<std::int64_t>(part * static_cast<double>(plain.growth));
    MemoryBudget budget({.peak_bytes = peak_bytes});
    for (int i = 0; i < kIterations; ++i) {
      SCOPED_TRACE(c10::str("iteration ", i));
      const Run got = run(weights, &budget, order);
      expect_same_bits(got.gradients, plain.gradients);
      for (std::size_t step = 0; step < got.steps.size(); ++step) {
        SCOPED_TRACE(c10::str("step ", step));
        EXPECT_LE(got.steps[step].peak_bytes, peak_bytes);
        if (i == kIterations - 1) {
          EXPECT_TRUE(got.steps[step].is_planned());
          EXPECT_EQ(got.steps[step].evicted_bytes, 0);
          EXPECT_EQ(got.steps[step].plans, 0);
        }
      }
    }
    EXPECT_EQ(live_frames(), 0);
  }

  EqualTimes equal_times;
};

TEST_F(BudgetInFlightTest, FitsOneForwardOneBackward) {
  for (const double part : {0.4, 0.6, 0.8}) {
    expect_to_fit(one_forward_one_backward(8, 4), part);
    expect_to_fit(one_forward_one_backward(6, 2), part);
  }
}

TEST_F(BudgetInFlightTest, FitsAllForwardsFirst) {
  for (const double part : {0.4, 0.6, 0.8}) {
    expect_to_fit("FFFFBBBB", part);
    expect_to_fit("FFFFLLLL", part);
  }
}

TEST_F(BudgetInFlightTest, FitsOneBackwardOfAllForwards) {
  for (const double part : {0.4, 0.6, 0.8}) {
    expect_to_fit("FFS", part);
    expect_to_fit("FFFFS", part);
  }
}

TEST_F(BudgetInFlightTest, PredictsThePeakOfAStage) {
  const Tensors weights = make_weights(6);
  const std::string order = one_forward_one_backward(8, 4);
  const Run plain = run(weights, nullptr, order);
  zero_gradients(weights);
  MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + plain.growth / 2});
  for (int i = 0; i < 5; ++i) {
    run(weights, &budget, order);
  }
  const Run got = run(weights, &budget, order);
  std::int64_t measured = 0;
  for (const BudgetedStep& step : got.steps) {
    measured = std::max(measured, step.peak_bytes);
  }
  EXPECT_EQ(measured, got.steps[1].predicted_peak_bytes);
}

}  // namespace
}  // namespace reprise::testing::budget_in_flight_test
