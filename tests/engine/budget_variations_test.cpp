// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory budgets for steps that are unlike the one before them, or that do not run as most do.
#include <torch/csrc/autograd/engine.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <thread>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/hooks/seam/backward_scope.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_variations_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BudgetVariationsTest : public BudgetedSteps {
 protected:
  EqualTimes equal_times;
};

void run_past_the_default_engine(const at::Tensor& loss) {
  torch::autograd::Engine::get_base_engine().execute({torch::autograd::impl::gradient_edge(loss)},
                                                     {at::ones_like(loss)}, /*keep_graph=*/false,
                                                     /*create_graph=*/false,
                                                     /*accumulate_grad=*/true);
}

TEST_F(BudgetVariationsTest, OtherShapesInEachStep) {
  const Tensors weights = make_weights(8);
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
TEST_F(BudgetVariationsTest, OtherSizesNeedNoPlanOfTheirOwn) {
  const Tensors weights = make_weights(8);
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

TEST_F(BudgetVariationsTest, ABranchThatThePlanDoesNotHave) {
  const Tensors weights = make_weights(8);
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

TEST_F(BudgetVariationsTest, SeveralBackwards) {
  const Tensors weights = make_weights(6);
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

TEST_F(BudgetVariationsTest, RegionsAndMarksOfTheModel) {
  const Tensors weights = make_weights(8);
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

TEST_F(BudgetVariationsTest, StepsThatDoNotEndWell) {
  const Tensors weights = make_weights(6);
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

TEST_F(BudgetVariationsTest, TwoThreadsWithABudgetEach) {
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
  const Tensors one = make_weights(8);
  const Tensors other = make_weights(8);
  Outcome plain[2];
  Outcome last[2];
  std::thread second([&] { train(2, other, plain[1], last[1]); });
  train(1, one, plain[0], last[0]);
  second.join();
  at::set_num_threads(threads);
}

// A backward that another thread runs, or an engine that the program calls itself.
TEST_F(BudgetVariationsTest, EstimatesABackwardThatIsNotObserved) {
  const auto on_a_thread = [](const at::Tensor& loss) {
    std::thread([&] { loss.backward(); }).join();
  };
  const Tensors weights = make_weights(12);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  for (const Backward& backward : {Backward(on_a_thread), Backward(run_past_the_default_engine)}) {
    const std::int64_t peak_bytes = budget_bytes(weights, 0.5, plain);
    MemoryBudget budget({.peak_bytes = peak_bytes});
    for (int i = 0; i < 5; ++i) {
      SCOPED_TRACE(i);
      const Outcome got = step(weights, &budget, forward, backward);
      EXPECT_LE(got.peak_bytes, peak_bytes);
      EXPECT_EQ(budget.last_step()->is_planned(), i > 0);
      EXPECT_EQ(budget.last_step()->is_recorded, i < 2);
      expect_same_bits(got.gradients, plain.gradients);
    }
    EXPECT_EQ(budget.last_step()->evicted_bytes, 0);
    EXPECT_THAT(budget.report(), HasSubstr("backward is an estimate"));
    step(weights, &budget, forward);
    EXPECT_LE(budget.last_step()->peak_bytes, peak_bytes);
  }
  EXPECT_EQ(live_frames(), 0);
}

TEST_F(BudgetVariationsTest, ObservesABackwardThatIsAnnounced) {
  const Tensors weights = make_weights(12);
  const at::Tensor x = torch::randn({512, kWidth});
  const auto forward = [&](const Tensors& w) { return layers(w, x); };
  const Outcome plain = step(weights, nullptr, forward);
  MemoryBudget budget({.peak_bytes = budget_bytes(weights, 0.5, plain)});
  for (int i = 0; i < 4; ++i) {
    const Outcome got = step(weights, &budget, forward, [&](const at::Tensor& loss) {
      const auto scope = hooks_internal::begin_backward({loss}, /*accumulates=*/true);
      run_past_the_default_engine(loss);
    });
    expect_same_bits(got.gradients, plain.gradients);
  }
  EXPECT_EQ(budget.last_step()->peak_bytes, *budget.last_step()->predicted_peak_bytes);
  EXPECT_THAT(budget.report(), Not(HasSubstr("backward is an estimate")));
}

}  // namespace
}  // namespace reprise::testing::budget_variations_test
