// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/memory_budget.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/planner/largest_batch.h"
#include "tests/engine/under_policies.h"
#include "tests/testing/within_budget.h"

namespace reprise::testing::memory_budget_test {
namespace {

using ::testing::HasSubstr;

class MemoryBudgetTest : public UnderPolicies {
 protected:
  MemoryBudgetTest() { install_cpu_memory_counter(); }

  static constexpr std::int64_t kWidth = 64;

  // Layers whose activations are much larger than their parameters.
  static at::Tensor layers(const Tensors& weights, at::Tensor h) {
    for (const at::Tensor& weight : weights) {
      h = h + at::dropout(at::gelu(h.matmul(weight)), 0.2, /*train=*/true);
    }
    return h.square().mean();
  }

  Tensors weights(int count) {
    torch::manual_seed(3);
    Tensors weights;
    for (int i = 0; i < count; ++i) {
      weights.push_back(leaf({kWidth, kWidth}));
    }
    return weights;
  }

  struct Outcome {
    Tensors gradients;
    std::int64_t peak_bytes = 0;  // in use, from the beginning to the end of the step
  };
  using Forward = std::function<at::Tensor(const Tensors&)>;

  static Outcome step(const Tensors& weights, MemoryBudget* budget, const Forward& forward) {
    for (at::Tensor weight : weights) {
      weight.mutable_grad().reset();
    }
    torch::manual_seed(5);
    reset_peak_cpu_memory();
    const at::Tensor loss = within(budget, [&] { return forward(weights); });
    loss.backward();
    Outcome outcome;
    outcome.peak_bytes = cpu_memory().peak_bytes;
    for (const at::Tensor& weight : weights) {
      outcome.gradients.push_back(weight.grad().clone());
    }
    return outcome;
  }

  // Runs `steps` steps of forward within that part of the plain step's memory, and expects its bits
  // and the budget to be kept.
  void expect_to_fit(const Tensors& weights, double part, const Forward& forward, int steps = 4) {
    const Outcome plain = step(weights, nullptr, forward);
    for (at::Tensor weight : weights) {
      weight.mutable_grad().reset();
    }
    const std::int64_t before = cpu_memory().current_bytes;
    const auto budget_bytes =
        before + static_cast<std::int64_t>(part * static_cast<double>(plain.peak_bytes - before));
    MemoryBudget budget({.peak_bytes = budget_bytes});
    for (int i = 0; i < steps; ++i) {
      SCOPED_TRACE(c10::str("part ", part, ", step ", i));
      const Outcome got = step(weights, &budget, forward);
      EXPECT_LE(got.peak_bytes, budget_bytes);
      EXPECT_EQ(budget.last_step()->peak_bytes, got.peak_bytes);
      EXPECT_EQ(budget.last_step()->is_planned(), i > 0);
      EXPECT_EQ(budget.last_step()->is_recorded, i < 2);
      expect_same_bits(got.gradients, plain.gradients);
    }
    EXPECT_EQ(live_frames(), 0);
  }
};

TEST_F(MemoryBudgetTest, StaysWithinTheBudgetWithTheBitsOfThePlainStep) {
  const Tensors weights = this->weights(12);
  const at::Tensor x = torch::randn({512, kWidth});
  for (const double part : {1.0, 0.7, 0.5, 0.3, 0.25}) {
    expect_to_fit(weights, part, [&](const Tensors& w) { return layers(w, x); });
  }
}

// pytorch#190758: with a budget in torch.compile, dropout draws again in backward.
TEST_F(MemoryBudgetTest, DropoutIsThatOfForward) {
  const Tensors weights = this->weights(4);
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
  const Tensors weights = this->weights(12);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  MemoryBudget budget({.peak_bytes = plain.peak_bytes / 2});
  EXPECT_THAT(budget.report(), HasSubstr("no step has ended"));
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
  const Tensors weights = this->weights(6);
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
  const Tensors weights = this->weights(6);
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
    for (at::Tensor weight : weights) {
      weight.mutable_grad().reset();
    }
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
  const Tensors weights = this->weights(6);
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

TEST_F(MemoryBudgetTest, OtherShapesInEachStep) {
  const Tensors weights = this->weights(8);
  MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + (std::int64_t{3} << 20)});
  for (const std::int64_t rows : {512, 256, 512, 384, 384, 256, 640, 512, 640, 128}) {
    SCOPED_TRACE(rows);
    const at::Tensor x = torch::ones({rows, kWidth});
    const auto forward = [&](const Tensors& w) { return layers(w, x); };
    const Outcome plain = step(weights, nullptr, forward);
    const Outcome got = step(weights, &budget, forward);
    EXPECT_LE(budget.last_step()->peak_bytes, cpu_memory().current_bytes + (std::int64_t{4} << 20));
    expect_same_bits(got.gradients, plain.gradients);
  }
}

// As with sequences of other lengths, or experts that are given other numbers of tokens.
TEST_F(MemoryBudgetTest, OtherSizesNeedNoPlanOfTheirOwn) {
  const Tensors weights = this->weights(8);
  const std::int64_t before = cpu_memory().current_bytes;
  MemoryBudget budget({.peak_bytes = before + (std::int64_t{4} << 20)});
  const auto run = [&](std::int64_t rows) {
    SCOPED_TRACE(rows);
    const at::Tensor x = torch::ones({rows, kWidth});
    const auto forward = [&](const Tensors& w) { return layers(w, x); };
    const Outcome plain = step(weights, nullptr, forward);
    expect_same_bits(step(weights, &budget, forward).gradients, plain.gradients);
    return *budget.last_step();
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(run(512).is_recorded, i < 2);
  }
  for (const std::int64_t rows : {480, 500, 450, 510, 448}) {
    const BudgetedStep step = run(rows);
    EXPECT_TRUE(step.has_other_sizes);
    EXPECT_FALSE(step.is_recorded);
    EXPECT_EQ(step.evicted_bytes, 0);
  }
  EXPECT_THAT(budget.report(), HasSubstr("plan: that of a step with the same operators"));
  EXPECT_TRUE(run(512).is_planned());
  // Too small for that plan, which recomputes in vain: the next one is recorded.
  EXPECT_TRUE(run(64).has_other_sizes);
  EXPECT_TRUE(run(64).is_recorded);
  EXPECT_TRUE(run(64).is_planned());
}

TEST_F(MemoryBudgetTest, ABranchThatThePlanDoesNotHave) {
  const Tensors weights = this->weights(8);
  const at::Tensor x = torch::randn({512, kWidth});
  bool is_short = false;
  const auto forward = [&](const Tensors& w) {
    const at::Tensor h = layers({w.begin(), w.begin() + 4}, x);
    return is_short ? h.exp() : h + layers({w.begin() + 4, w.end()}, x * 2);
  };
  const Outcome plain = step(weights, nullptr, forward);
  MemoryBudget budget({.peak_bytes = plain.peak_bytes / 2 + cpu_memory().current_bytes / 2});
  for (int i = 0; i < 8; ++i) {
    SCOPED_TRACE(i);
    is_short = i == 3 || i == 4;
    torch::manual_seed(5);
    Tensors none(weights.begin(), is_short ? weights.begin() + 4 : weights.end());
    const Outcome expected = step(none, nullptr, [&](const Tensors&) { return forward(weights); });
    const Outcome got = step(none, &budget, [&](const Tensors&) { return forward(weights); });
    expect_same_bits(got.gradients, expected.gradients);
  }
}

TEST_F(MemoryBudgetTest, SeveralBackwards) {
  const Tensors weights = this->weights(6);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto grads = [&](MemoryBudget* budget) {
    torch::manual_seed(5);
    const at::Tensor loss = within(budget, [&] { return layers(weights, x); });
    Tensors first = torch::autograd::grad({loss}, weights, {}, true, /*create_graph=*/true);
    Tensors again = torch::autograd::grad({loss}, weights, {}, /*retain_graph=*/true);
    const at::Tensor norm = first[0].square().sum() + first[3].square().sum();
    const Tensors second = torch::autograd::grad({norm}, weights);
    again.insert(again.end(), second.begin(), second.end());
    return again;
  };
  const std::int64_t before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  const Tensors plain = grads(nullptr);
  MemoryBudget budget({.peak_bytes = before + (cpu_memory().peak_bytes - before)});
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    expect_same_bits(grads(&budget), plain);
  }
  EXPECT_EQ(live_frames(), 0);
}

TEST_F(MemoryBudgetTest, RegionsAndMarksOfTheModel) {
  const Tensors weights = this->weights(8);
  const at::Tensor x = torch::randn({512, kWidth});
  expect_to_fit(weights, 0.9, [&](const Tensors& w) {
    const auto block = [](const at::Tensor& h, const at::Tensor& weight) {
      return h + at::dropout(at::gelu(h.matmul(weight)), 0.2, true);
    };
    at::Tensor h = checkpoint({.policy = policies::save_matmuls()}, block, x, w[0]);
    {
      const CheckpointScope scope;
      h = block(h, w[1]);
    }
    must_save(h);
    h = checkpoint(block, h, w[2]);
    return layers({w.begin() + 3, w.end()}, h);
  });
}

TEST_F(MemoryBudgetTest, ABudgetThatIsTooSmallIsAnErrorAndNeverExceeded) {
  const Tensors weights = this->weights(4);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  step(weights, nullptr, forward);
  for (at::Tensor weight : weights) {
    weight.mutable_grad().reset();
  }
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

TEST_F(MemoryBudgetTest, StepsThatDoNotEndWell) {
  const Tensors weights = this->weights(6);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  MemoryBudget budget({.peak_bytes = plain.peak_bytes * 2 / 3});
  for (int i = 0; i < 6; ++i) {
    SCOPED_TRACE(i);
    EXPECT_THROW(step(weights, &budget,
                      [&](const Tensors& w) -> at::Tensor {
                        layers(w, x);
                        throw std::runtime_error("in forward");
                      }),
                 std::runtime_error);
    EXPECT_THROW(step(weights, &budget,
                      [&](const Tensors& w) {
                        at::Tensor h = w[0].matmul(w[1]);
                        h.register_hook([](const at::Tensor&) -> at::Tensor {
                          throw std::runtime_error("in backward");
                        });
                        return layers(w, x) + h.sum();
                      }),
                 std::runtime_error);
    {
      const BudgetScope no_backward(budget);
      layers(weights, x);
    }
    EXPECT_EQ(live_frames(), 0);
    expect_same_bits(step(weights, &budget, forward).gradients, plain.gradients);
  }
}

TEST_F(MemoryBudgetTest, NoGradientsNoEffect) {
  const Tensors weights = this->weights(2);
  const at::Tensor x = torch::randn({512, kWidth});
  MemoryBudget budget({.peak_bytes = 1});
  const torch::NoGradGuard no_grad;
  const BudgetScope scope(budget);
  EXPECT_NO_THROW(layers(weights, x));
  EXPECT_FALSE(budget.last_step().has_value());
}

TEST_F(MemoryBudgetTest, TwoThreadsWithABudgetEach) {
  // LibTorch's matmul may round otherwise when its threads are busy elsewhere.
  const int threads = at::get_num_threads();
  const auto train = [](int seed, const Tensors& weights, Outcome& plain, Outcome& last) {
    at::set_num_threads(1);
    const at::Tensor x = torch::ones({256, kWidth}) * seed;
    const auto forward = [&](const Tensors& w) {
      at::Tensor h = x;
      for (const at::Tensor& weight : w) {
        h = h + at::gelu(h.matmul(weight));
      }
      return h.square().mean();
    };
    plain = step(weights, nullptr, forward);
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + (std::int64_t{6} << 20)});
    for (int i = 0; i < 10; ++i) {
      last = step(weights, &budget, forward);
      expect_same_bits(last.gradients, plain.gradients);
    }
  };
  const Tensors one = weights(8);
  const Tensors other = weights(8);
  Outcome plain[2];
  Outcome last[2];
  std::thread second([&] { train(2, other, plain[1], last[1]); });
  train(1, one, plain[0], last[0]);
  second.join();
  at::set_num_threads(threads);
}

TEST_F(MemoryBudgetTest, RefusesContradictionsAndRegionsAround) {
  EXPECT_THROW(MemoryBudget({}), std::invalid_argument);
  EXPECT_THROW(MemoryBudget({.peak_bytes = -1}), std::invalid_argument);
  EXPECT_THROW(MemoryBudget({.peak_bytes = 1, .max_overhead = 0.1}), std::invalid_argument);
  EXPECT_THROW(MemoryBudget({.max_overhead = -0.1}), std::invalid_argument);
  MemoryBudget budget({.peak_bytes = std::int64_t{1} << 40});
  const CheckpointScope region;
  EXPECT_THROW(BudgetScope scope(budget), CheckpointError);
}

}  // namespace
}  // namespace reprise::testing::memory_budget_test
