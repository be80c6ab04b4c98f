// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Steps of one model over sequences of several lengths, in any order, within one budget: the
// longer ones begin as the shorter ones do.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "tests/engine/budgeted_steps.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::budget_lengths_test {
namespace {

class BudgetLengthsTest : public BudgetedSteps {
 protected:
  // A recurrent net without inputs.
  static at::Tensor cells(const Tensors& weights, int length) {
    at::Tensor state = at::linspace(0.1, 1, kWidth * kWidth).view({kWidth, kWidth});
    for (int i = 0; i < length; ++i) {
      const at::Tensor gate = weights[0].matmul(state).sigmoid();
      state = gate * weights[1].matmul(state).tanh() + (1 - gate) * state;
    }
    return state.square().mean();
  }

  // Returns how many matrix products a step runs.
  static std::size_t products(const Tensors& weights, int length, MemoryBudget* budget) {
    const OpRecorder recorder;
    step(weights, budget, [&](const Tensors& w) { return cells(w, length); });
    return recorder.count("aten::mm");
  }

  // Returns those of a step that has a budget of its own, and a plan.
  static std::size_t planned_products(const Tensors& weights, int length, std::int64_t peak_bytes) {
    MemoryBudget budget({.peak_bytes = peak_bytes});
    for (int i = 0; i < 4; ++i) {
      products(weights, length, &budget);
    }
    return products(weights, length, &budget);
  }

  // Returns the median, from the 20th step on, of the products of a step in random order over
  // those of one with a budget of its own.
  static double median_ratio(const std::vector<int>& lengths, double part) {
    const Tensors weights = make_weights(2);
    const Forward longest = [&](const Tensors& w) { return cells(w, lengths.back()); };
    const std::int64_t peak_bytes = budget_bytes(weights, part, step(weights, nullptr, longest));
    std::map<int, std::size_t> own;
    for (const int length : lengths) {
      own[length] = planned_products(weights, length, peak_bytes);
    }
    MemoryBudget budget({.peak_bytes = peak_bytes});
    std::mt19937 random(7);
    std::vector<double> ratios;
    int plans = 0;
    for (int i = 0; i < 44; ++i) {
      const int length = lengths[random() % lengths.size()];
      const auto count = static_cast<double>(products(weights, length, &budget));
      EXPECT_LE(budget.last_step()->peak_bytes, peak_bytes) << "step " << i;
      plans += budget.last_step()->plans;
      if (i >= 20) {
        ratios.push_back(count / static_cast<double>(own[length]));
      }
    }
    EXPECT_LE(plans, 6 * static_cast<int>(lengths.size()));
    std::sort(ratios.begin(), ratios.end());
    return ratios[ratios.size() / 2];
  }

  EqualTimes equal_times;
};

TEST_F(BudgetLengthsTest, RunsAboutAsManyOperatorsAsWithBudgetsOfTheirOwn) {
  for (const double part : {0.3, 0.6}) {
    EXPECT_LE(median_ratio({20, 25}, part), 1.05) << part;
    EXPECT_LE(median_ratio({14, 16, 18, 20, 22, 24, 26, 28}, part), 1.05) << part;
  }
}

}  // namespace
}  // namespace reprise::testing::budget_lengths_test
