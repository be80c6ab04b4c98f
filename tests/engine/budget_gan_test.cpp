// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Two models that are trained against each other, within one budget or one budget each: steps of
// two kinds in turn, a graph that one step discards, and a graph that waits for its backward while
// another step runs.
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_gan_test {
namespace {

// Where the discriminator's step has the generated samples from.
enum class Samples : std::uint8_t {
  kDetached,  // made in that step, detached
  kAttached,  // made in that step; its backward goes on into the generator
  kShared,    // made before, once for both steps; the generator's graph waits for its own step
};

constexpr std::int64_t kRows = 256;

class BudgetGanTest : public BudgetedSteps {
 protected:
  struct Budgets {
    MemoryBudget* discriminator = nullptr;  // null for plain steps
    MemoryBudget* generator = nullptr;
  };
  struct Run {
    Tensors gradients;
    std::int64_t growth = 0;
    std::vector<BudgetedStep> steps;
  };

  at::Tensor generate() const {
    at::Tensor h = at::linspace(0.1, 1, kRows * kWidth).view({kRows, kWidth});
    for (const at::Tensor& weight : generator_) {
      h = h + at::dropout(at::gelu(h.matmul(weight)), 0.2, /*train=*/true);
    }
    return h;
  }

  at::Tensor judge(const at::Tensor& samples) const { return layers(discriminator_, samples); }

  at::Tensor judge_both(const at::Tensor& generated) const {
    const at::Tensor real = at::linspace(1, 0.2, kRows * kWidth).view({kRows, kWidth});
    return judge(generated) - judge(real);
  }

  // Backward of a step: moves the gradients of `weights` to the run, and drops all others.
  void finish_step(const at::Tensor& loss, const Tensors& weights, MemoryBudget* budget,
                   Run& run) const {
    loss.backward();
    for (const at::Tensor& weight : weights) {
      run.gradients.push_back(weight.grad());
    }
    zero_gradients(discriminator_);
    zero_gradients(generator_);
    if (budget != nullptr) {
      run.steps.push_back(*budget->last_step());
    }
  }

  // One step of each model.
  Run run(Samples samples, const Budgets& budgets) const {
    torch::manual_seed(5);
    const std::int64_t before = cpu_memory().current_bytes;
    reset_peak_cpu_memory();
    Run found;
    at::Tensor generated;
    if (samples == Samples::kShared) {
      generated = within(budgets.generator, [&] { return generate(); });
    }
    at::Tensor loss = within(budgets.discriminator, [&] {
      switch (samples) {
        case Samples::kDetached:
          return judge_both(generate().detach());
        case Samples::kAttached:
          return judge_both(generate());
        default:
          return judge_both(generated.detach());
      }
    });
    finish_step(std::exchange(loss, {}), discriminator_, budgets.discriminator, found);
    loss = within(budgets.generator, [&] {
      return judge(samples == Samples::kShared ? std::exchange(generated, {}) : generate());
    });
    finish_step(std::exchange(loss, {}), generator_, budgets.generator, found);
    found.growth = cpu_memory().peak_bytes - before;
    return found;
  }

  // Within that part of the plain steps' memory: bits and the budget are kept, and after a few
  // steps of each kind plans have settled, but for graphs that wait while another budget's step
  // runs: neither plans for both.
  void expect_to_fit(Samples samples, double part, bool has_two_budgets) const {
    SCOPED_TRACE(c10::str("samples ", static_cast<int>(samples), ", part ", part,
                          has_two_budgets ? ", two budgets" : ", one budget"));
    constexpr int kIterations = 10;
    constexpr int kSettled = 3;  // the last ones
    const Run plain = run(samples, {});
    const std::int64_t peak_bytes =
        cpu_memory().current_bytes +
        static_cast<std::int64_t>(part * static_cast<double>(plain.growth));
    MemoryBudget first({.peak_bytes = peak_bytes});
    MemoryBudget second({.peak_bytes = peak_bytes});
    for (int i = 0; i < kIterations; ++i) {
      SCOPED_TRACE(c10::str("iteration ", i));
      const Run got = run(samples, {&first, has_two_budgets ? &second : &first});
      expect_same_bits(got.gradients, plain.gradients);
      for (std::size_t step = 0; step < got.steps.size(); ++step) {
        SCOPED_TRACE(c10::str("step ", step));
        EXPECT_LE(got.steps[step].peak_bytes, peak_bytes);
        if (i >= kIterations - kSettled && !(samples == Samples::kShared && has_two_budgets)) {
          EXPECT_TRUE(got.steps[step].is_planned());
          EXPECT_EQ(got.steps[step].evicted_bytes, 0);
          EXPECT_EQ(got.steps[step].plans, 0);
        }
      }
    }
    EXPECT_EQ(live_frames(), 0);
  }

  void expect_to_fit(Samples samples) {
    generator_ = make_weights(3);
    discriminator_ = make_weights(4);
    for (const double part : {0.5, 0.7}) {
      for (const bool has_two_budgets : {false, true}) {
        expect_to_fit(samples, part, has_two_budgets);
      }
    }
    generator_.clear();
    discriminator_.clear();
  }

  Tensors generator_;
  Tensors discriminator_;
  EqualTimes equal_times;
};

TEST_F(BudgetGanTest, FitsDetachedSamples) { expect_to_fit(Samples::kDetached); }

TEST_F(BudgetGanTest, FitsAStepThatDiscardsTheOtherModelsGradients) {
  expect_to_fit(Samples::kAttached);
}

TEST_F(BudgetGanTest, FitsAGraphThatWaitsForAnotherStep) { expect_to_fit(Samples::kShared); }

}  // namespace
}  // namespace reprise::testing::budget_gan_test
