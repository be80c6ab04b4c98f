// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Training steps within a memory budget, and plain ones to compare them with.
#ifndef REPRISE_TESTS_ENGINE_BUDGETED_STEPS_H_
#define REPRISE_TESTS_ENGINE_BUDGETED_STEPS_H_

#include <cstdint>
#include <functional>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "tests/engine/under_policies.h"
#include "tests/testing/equal_times.h"
#include "tests/testing/within_budget.h"

namespace reprise::testing {

class BudgetedSteps : public UnderPolicies {
 protected:
  BudgetedSteps() { install_cpu_memory_counter(); }

  static constexpr std::int64_t kWidth = 64;

  static Tensors make_weights(int count) {
    torch::manual_seed(3);
    Tensors weights;
    for (int i = 0; i < count; ++i) {
      weights.push_back(leaf({kWidth, kWidth}));
    }
    return weights;
  }

  // Layers whose activations are much larger than their parameters.
  static at::Tensor layers(const Tensors& weights, at::Tensor h) {
    for (const at::Tensor& weight : weights) {
      h = h + at::dropout(at::gelu(h.matmul(weight)), 0.2, /*train=*/true);
    }
    return h.square().mean();
  }

  static void zero_gradients(const Tensors& weights) {
    for (at::Tensor weight : weights) {
      weight.mutable_grad().reset();
    }
  }

  struct Outcome {
    Tensors gradients;
    std::int64_t peak_bytes = 0;  // in use, from the beginning to the end of the step
  };
  using Forward = std::function<at::Tensor(const Tensors&)>;
  using Backward = std::function<void(const at::Tensor& loss)>;

  static void run_backward(const at::Tensor& loss) { loss.backward(); }

  // budget: null for a plain step.
  static Outcome step(const Tensors& weights, MemoryBudget* budget, const Forward& forward,
                      const Backward& backward = run_backward) {
    zero_gradients(weights);
    torch::manual_seed(5);
    reset_peak_cpu_memory();
    backward(within(budget, [&] { return forward(weights); }));
    Outcome outcome;
    outcome.peak_bytes = cpu_memory().peak_bytes;
    for (const at::Tensor& weight : weights) {
      outcome.gradients.push_back(weight.grad().defined() ? weight.grad().clone() : at::Tensor());
    }
    return outcome;
  }

  // Returns a budget of that part of the plain step's memory.
  static std::int64_t budget_bytes(const Tensors& weights, double part, const Outcome& plain) {
    zero_gradients(weights);
    const std::int64_t before = cpu_memory().current_bytes;
    return before +
           static_cast<std::int64_t>(part * static_cast<double>(plain.peak_bytes - before));
  }

  // Runs `steps` steps of forward within that part of the plain step's memory, and expects its bits
  // and the budget to be kept.
  static void expect_to_fit(const Tensors& weights, double part, const Forward& forward,
                            int steps = 4) {
    const Outcome plain = step(weights, nullptr, forward);
    const std::int64_t peak_bytes = budget_bytes(weights, part, plain);
    MemoryBudget budget({.peak_bytes = peak_bytes});
    for (int i = 0; i < steps; ++i) {
      SCOPED_TRACE(c10::str("part ", part, ", step ", i));
      const Outcome got = step(weights, &budget, forward);
      EXPECT_LE(got.peak_bytes, peak_bytes);
      EXPECT_EQ(budget.last_step()->peak_bytes, got.peak_bytes);
      EXPECT_EQ(budget.last_step()->is_planned(), i > 0);
      EXPECT_EQ(budget.last_step()->is_recorded, i < 2);
      expect_same_bits(got.gradients, plain.gradients);
    }
    EXPECT_EQ(live_frames(), 0);
  }
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_ENGINE_BUDGETED_STEPS_H_
