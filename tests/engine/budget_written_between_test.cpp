// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory from outside that the program writes to between forward and backward, which plain autograd
// allows where it has not saved it.
#include <ATen/ops/ones.h>

#include <algorithm>
#include <string>

#include "reprise/engine/errors.h"
#include "reprise/engine/memory_budget.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_written_between_test {
namespace {

using ::testing::HasSubstr;

class BudgetWrittenBetweenTest : public BudgetedSteps {
 protected:
  static constexpr std::int64_t kRows = 4096;

  // One step: `addend` makes a tensor that the layers add, and `write` changes it before backward.
  struct Program {
    std::function<at::Tensor()> addend;
    std::function<void(at::Tensor)> write = [](at::Tensor tensor) { tensor.add_(1); };
    bool is_made_inside = false;
    bool has_sine = true;
    const at::Tensor x = at::randn({kRows, kWidth});
    const at::Tensor factor = at::rand({kWidth}) + 0.5;  // which autograd saves

    Outcome step(const Tensors& weights, MemoryBudget* budget) const {
      at::Tensor c = is_made_inside ? at::Tensor() : addend();
      return BudgetedSteps::step(
          weights, budget,
          [&](const Tensors& w) {
            c = is_made_inside ? addend() : c;
            at::Tensor h = x;
            for (const at::Tensor& weight : w) {
              h = ((h.matmul(weight) + c) * factor).tanh();
              h = has_sine ? h.sin() : h;
            }
            return h.square().mean();
          },
          [&](const at::Tensor& loss) {
            write(c);
            loss.backward();
          });
    }
  };

  // Returns the error messages of steps within that part of the plain step's memory. Expects the
  // others to have the bits of the plain one, and to keep the budget.
  static std::vector<std::string> errors_within(double part, const Program& program,
                                                int steps = 6) {
    SCOPED_TRACE(part);
    const Tensors weights = make_weights(8);
    const Outcome plain = program.step(weights, nullptr);
    const std::int64_t peak_bytes = budget_bytes(weights, part, plain);
    MemoryBudget budget({.peak_bytes = peak_bytes});
    std::vector<std::string> errors;
    for (int i = 0; i < steps; ++i) {
      SCOPED_TRACE(i);
      try {
        const Outcome got = program.step(weights, &budget);
        EXPECT_LE(got.peak_bytes, peak_bytes);
        expect_same_bits(got.gradients, plain.gradients);
      } catch (const c10::Error& error) {  // or a BudgetExceededError
        EXPECT_EQ(i, 0);
        errors.emplace_back(error.what_without_backtrace());
      }
    }
    EXPECT_TRUE(part > 1 || budget.last_step()->is_planned());
    return errors;
  }

  // At most the first step may fail.
  static void expect_to_learn(const Program& program, std::initializer_list<double> parts) {
    for (const double part : parts) {
      const std::vector<std::string> errors = errors_within(part, program);
      EXPECT_LE(errors.size(), part > 1 ? 0 : 1);
      for (const std::string& error : errors) {
        EXPECT_THAT(error, HasSubstr("keep what they read there"));
      }
    }
    EXPECT_EQ(live_frames(), 0);
  }

  EqualTimes equal_times;
};

TEST_F(BudgetWrittenBetweenTest, OneTensorInAllSteps) {
  const at::Tensor c = at::ones({kWidth});
  expect_to_learn({.addend = [&] { return c.detach().fill_(1); }}, {1.1, 0.9, 0.8, 0.7, 0.6});
}

TEST_F(BudgetWrittenBetweenTest, AnotherTensorInEachStep) {
  expect_to_learn({.addend = [] { return at::ones({kWidth}); }}, {1.1, 0.9, 0.8, 0.7, 0.6});
}

TEST_F(BudgetWrittenBetweenTest, ATensorThatForwardMakes) {
  expect_to_learn({.addend = [] { return at::ones({kWidth}); }, .is_made_inside = true},
                  {1.1, 0.8, 0.6});
}

// Little of forward can be computed again without the addend.
TEST_F(BudgetWrittenBetweenTest, WhatStaysMayNotFit) {
  const at::Tensor c = at::ones({kWidth});
  expect_to_learn({.addend = [&] { return c.detach().fill_(1); }, .has_sine = false}, {0.9, 0.6});
}

// Nothing counts the write.
TEST_F(BudgetWrittenBetweenTest, ThroughAPointer) {
  expect_to_learn({.addend = [] { return at::ones({kWidth}); },
                   .write = [](const at::Tensor& c) { *c.data_ptr<float>() += 1; }},
                  {0.8, 0.6});
}

// Larger than what a tape copies: the results of its readers are retained instead.
TEST_F(BudgetWrittenBetweenTest, MemoryThatIsTooLargeToCopy) {
  const at::Tensor c = at::ones({2 * kRows, kWidth});
  expect_to_learn({.addend = [&] { return c.detach().fill_(1).narrow(0, 0, kRows); }},
                  {1.1, 0.9, 0.8});
}

// What a step without regions refuses, a budget refuses in each step.
TEST_F(BudgetWrittenBetweenTest, MemoryThatAutogradSaves) {
  const Tensors weights = make_weights(4);
  const at::Tensor x = at::randn({kRows, kWidth});
  at::Tensor factor = at::rand({kWidth});
  const auto run = [&](MemoryBudget* budget) {
    step(
        weights, budget,
        [&](const Tensors& w) {
          at::Tensor h = x;
          for (const at::Tensor& weight : w) {
            h = (h.matmul(weight) * factor + factor).tanh();
          }
          return h.square().mean();
        },
        [&](const at::Tensor& loss) {
          factor.add_(1);
          loss.backward();
        });
  };
  EXPECT_ANY_THROW(run(nullptr));
  MemoryBudget budget;
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(run(&budget), MutationError);
  }
}

}  // namespace
}  // namespace reprise::testing::budget_written_between_test
