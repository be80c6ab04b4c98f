// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a budget refuses and what it does not: see Note [A limit belongs to its step].
#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "tests/engine/budgeted_steps.h"

namespace reprise::testing::budget_limits_test {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kRows = 50000;  // of 32 bytes

class BudgetLimitsTest : public BudgetedSteps {
 protected:
  // LibTorch's matmul may round otherwise when its threads are busy elsewhere.
  BudgetLimitsTest() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~BudgetLimitsTest() override { at::set_num_threads(threads_); }

  at::Tensor layers(at::Tensor h, int count) const {
    for (int i = 0; i < count; ++i) {
      h = h.matmul(weight_).tanh();
    }
    return h;
  }
  at::Tensor loss(int count) const { return layers(x_, count).square().sum(); }

  // Runs the step three times with `room` bytes, and expects it to be held to them each time.
  // Returns how often it has been refused.
  template <typename Step>
  static int refusals(std::int64_t room, const Step& step) {
    const std::int64_t limit = cpu_memory().current_bytes + room;
    MemoryBudget budget({.peak_bytes = limit});
    int refused = 0;
    for (int i = 0; i < 3; ++i) {
      SCOPED_TRACE(c10::str("step ", i));
      reset_peak_cpu_memory();
      refused += is_refused([&] { step(budget); }) ? 1 : 0;
      EXPECT_LE(cpu_memory().peak_bytes, limit);
      if (const auto last = budget.last_step()) {
        EXPECT_LE(last->peak_bytes, limit);
      }
      EXPECT_EQ(live_frames(), 0);
    }
    return refused;
  }

  template <typename Code>
  static bool is_refused(const Code& code) {
    try {
      code();
      return false;
    } catch (const BudgetExceededError&) {
      hooks_internal::release_nodes_of_failed_backward();
      return true;
    }
  }

  void plain_step() const { torch::autograd::grad({loss(12)}, {weight_}); }

  void TearDown() override {
    weight_.reset();
    x_.reset();
    BudgetedSteps::TearDown();
  }

  at::Tensor weight_ = (torch::randn({8, 8}) * 0.4).requires_grad_();
  at::Tensor x_ = torch::randn({kRows, 8});

 private:
  const int threads_;
};

// The last node reads no saved tensor, and makes a gradient of 6 MiB.
TEST_F(BudgetLimitsTest, HoldsToTheEndOfBackward) {
  const at::Tensor big = torch::randn({4 * kRows, 8}).requires_grad_();
  EXPECT_EQ(refusals(kMiB,
                     [&](MemoryBudget& budget) {
                       const at::Tensor sum = within(&budget, [&] {
                         return big.narrow(0, 0, 4).matmul(weight_).sin().sum();
                       });
                       torch::autograd::grad({sum}, {big, weight_});
                     }),
            3);
}

TEST_F(BudgetLimitsTest, ThePeakIsThatOfTheWholeBackward) {
  const at::Tensor big = torch::randn({4 * kRows, 8}).requires_grad_();
  MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + 100 * kMiB});
  for (int i = 0; i < 3; ++i) {
    reset_peak_cpu_memory();
    const at::Tensor sum =
        within(&budget, [&] { return big.narrow(0, 0, 4).matmul(weight_).sin().sum(); });
    torch::autograd::grad({sum}, {big, weight_});
    EXPECT_EQ(budget.last_step()->peak_bytes, cpu_memory().peak_bytes);
  }
}

TEST_F(BudgetLimitsTest, ABackwardInsideTheScopeIsPartOfForward) {
  const auto step = [&](MemoryBudget* budget) {
    const at::Tensor root = within(budget, [&] {
      const at::Tensor part = x_.narrow(0, 0, 100).clone().requires_grad_();
      const at::Tensor slope =
          torch::autograd::grad({layers(part, 2).sum()}, {part}, {}, true, true)[0];
      return slope.square().sum() + layers(x_, 8).square().sum();
    });
    return torch::autograd::grad({root}, {weight_})[0];
  };
  const at::Tensor expected = step(nullptr);
  EXPECT_EQ(refusals(14 * kMiB,
                     [&](MemoryBudget& budget) { expect_same_bits({step(&budget)}, {expected}); }),
            0);
  EXPECT_EQ(refusals(3 * kMiB, [&](MemoryBudget& budget) { step(&budget); }), 3);
}

TEST_F(BudgetLimitsTest, HoldsInALaterBackwardFromItsBeginning) {
  EXPECT_EQ(refusals(30 * kMiB,
                     [&](MemoryBudget& budget) {
                       const at::Tensor root = within(&budget, [&] { return loss(6); });
                       const at::Tensor slope =
                           torch::autograd::grad({root}, {weight_}, {}, true, true)[0];
                       torch::autograd::grad({slope.tanh().sum()}, {weight_});
                     }),
            3);
  // A node that is evaluated before those of the step allocates 12 MiB.
  const at::Tensor big = torch::randn({8 * kRows, 8}).requires_grad_();
  EXPECT_EQ(refusals(10 * kMiB,
                     [&](MemoryBudget& budget) {
                       const at::Tensor root = within(&budget, [&] { return loss(2); });
                       torch::autograd::grad({root}, {weight_}, {}, /*retain_graph=*/true);
                       const at::Tensor sum = root + big.narrow(0, 0, 1).sum();
                       torch::autograd::grad({sum}, {weight_, big});
                     }),
            3);
}

// See Note [Steps without a tape]: a function region has all that is saved, or the user's hooks
// have, or nothing is saved.
TEST_F(BudgetLimitsTest, HoldsWhereNothingIsOnTheTape) {
  const at::Tensor big = torch::randn({4 * kRows, 8}).requires_grad_();
  const auto part = [&] { return big.narrow(0, 0, 4); };
  const std::vector<std::function<at::Tensor()>> forwards = {
      [&] { return checkpoint([&](const at::Tensor& x) { return x.narrow(0, 0, 4).sin(); }, big); },
      [&] {
        const SavedTensorHooksGuard hooks([](const at::Tensor& t) { return t; },
                                          [](const at::Tensor& t) { return t; });
        return part().sin();
      },
      [&] { return part() + 1; }};
  for (std::size_t i = 0; i < forwards.size(); ++i) {
    SCOPED_TRACE(i);
    const auto root = [&](MemoryBudget& budget) { return within(&budget, forwards[i]); };
    const auto backward = [&](const at::Tensor& y) {
      torch::autograd::grad({y}, {big}, {torch::ones({4, 8})}, /*retain_graph=*/true);
    };
    EXPECT_EQ(refusals(kMiB, [&](MemoryBudget& budget) { backward(root(budget)); }), 3);
    EXPECT_EQ(refusals(kMiB,
                       [&](MemoryBudget& budget) {
                         const at::Tensor y = root(budget);
                         const at::Tensor other = torch::ones({kRows, 8});
                       }),
              3);
    // So is a second backward.
    EXPECT_EQ(refusals(8 * kMiB,
                       [&](MemoryBudget& budget) {
                         const at::Tensor y = root(budget);
                         backward(y);
                         EXPECT_TRUE(budget.last_step());
                         const at::Tensor other = torch::ones({kRows, 40});
                         EXPECT_THROW(backward(y), BudgetExceededError);
                         hooks_internal::release_nodes_of_failed_backward();
                       }),
              0);
  }
}

TEST_F(BudgetLimitsTest, HoldsBetweenScopeAndBackward) {
  for (const bool is_kept : {false, true}) {
    EXPECT_EQ(refusals(10 * kMiB,
                       [&](MemoryBudget& budget) {
                         const at::Tensor root = within(&budget, [&] { return loss(6); });
                         at::Tensor other = torch::ones({kRows, 64});
                         other = is_kept ? other : at::Tensor();
                         torch::autograd::grad({root}, {weight_});
                       }),
              3);
  }
  // What fits, fits.
  EXPECT_EQ(refusals(24 * kMiB,
                     [&](MemoryBudget& budget) {
                       const at::Tensor root = within(&budget, [&] { return loss(6); });
                       const at::Tensor other = torch::ones({kRows, 64});
                       torch::autograd::grad({root}, {weight_});
                     }),
            0);
}

TEST_F(BudgetLimitsTest, AnotherThreadIsNotRefusedAndCounts) {
  const std::int64_t limit = cpu_memory().current_bytes + 10 * kMiB;
  MemoryBudget budget({.peak_bytes = limit});
  const at::Tensor root = within(&budget, [&] {
    const at::Tensor sum = loss(6);
    std::thread([] { EXPECT_NO_THROW(torch::ones({kRows, 64})); }).join();
    return sum;
  });
  torch::autograd::grad({root}, {weight_});
  EXPECT_GE(budget.last_step()->peak_bytes, kRows * 64 * 4);
  EXPECT_GT(budget.last_step()->peak_bytes, limit);
}

TEST_F(BudgetLimitsTest, AnotherThreadsBackwardIsNotRefused) {
  MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + 16 * kMiB});
  {
    const at::Tensor waiting = within(&budget, [&] { return loss(6); });
    std::thread([&] {
      at::set_num_threads(1);
      EXPECT_NO_THROW(plain_step());
    }).join();
  }
  std::atomic<bool> is_inside = false;
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    at::set_num_threads(1);
    const at::Tensor root = within(&budget, [&] {
      const at::Tensor h = layers(x_, 1);
      h.register_hook([&](const at::Tensor& gradient) {
        is_inside = true;
        while (!is_done) {
          std::this_thread::yield();
        }
        return gradient;
      });
      return h.square().sum();
    });
    torch::autograd::grad({root}, {weight_});
  });
  while (!is_inside) {
    std::this_thread::yield();
  }
  EXPECT_NO_THROW(plain_step());
  is_done = true;
  other.join();
}

TEST_F(BudgetLimitsTest, ABackwardOnAnotherThreadIsHeld) {
  const at::Tensor big = torch::randn({4 * kRows, 8}).requires_grad_();
  EXPECT_EQ(
      refusals(kMiB,
               [&](MemoryBudget& budget) {
                 const at::Tensor sum = within(
                     &budget, [&] { return big.narrow(0, 0, 4).matmul(weight_).sin().sum(); });
                 bool has_failed = false;
                 std::thread([&] {
                   has_failed = is_refused([&] { torch::autograd::grad({sum}, {big, weight_}); });
                 }).join();
                 if (has_failed) {
                   throw BudgetExceededError("on the thread");
                 }
               }),
      3);
}

TEST_F(BudgetLimitsTest, EndsWithItsBudgetButForItsBackward) {
  std::vector<at::Tensor> log;
  {
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + 16 * kMiB});
    log.push_back(within(&budget, [&] { return loss(6); }));
    EXPECT_TRUE(is_refused([&] { plain_step(); }));
    log.push_back(within(&budget, [&] { return loss(6); }));
  }
  EXPECT_FALSE(is_refused([&] { plain_step(); }));
  EXPECT_FALSE(is_refused([&] { torch::autograd::grad({log[0]}, {weight_}); }));
}

TEST_F(BudgetLimitsTest, ATightBudgetBesideAnAmpleOneOfAnotherThread) {
  const std::int64_t before = cpu_memory().current_bytes;
  const std::int64_t activations = std::int64_t{6} * kRows * 64;
  std::atomic<bool> is_done = false;
  std::atomic<int> refused = 0;
  std::atomic<std::int64_t> evicted = 0;
  const auto step = [&](MemoryBudget& budget) {
    return is_refused([&] {
      const at::Tensor root = within(&budget, [&] { return loss(6); });
      torch::autograd::grad({root}, {weight_});
    });
  };
  std::thread other([&] {
    at::set_num_threads(1);
    MemoryBudget ample({.peak_bytes = before + 4 * activations});
    for (int i = 0; i < 10; ++i) {
      refused += step(ample) ? 1 : 0;
      evicted += ample.last_step()->evicted_bytes;
    }
    is_done = true;
  });
  MemoryBudget tight({.peak_bytes = before + activations / 2});
  while (!is_done) {
    step(tight);
  }
  other.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(evicted, 0);
}

// As the traceback of an error in Python holds the loss, and so the step.
TEST_F(BudgetLimitsTest, CodeAfterAnErrorIsNotHeld) {
  for (const bool in_backward : {false, true}) {
    SCOPED_TRACE(in_backward);
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + (in_backward ? 12 : 3) * kMiB});
    at::Tensor kept;
    try {
      kept = within(&budget, [&] {
        kept = loss(6);
        return kept;
      });
      const at::Tensor other = torch::ones({kRows, in_backward ? 64 : 1});
      torch::autograd::grad({kept}, {weight_});
      ADD_FAILURE() << "no error";
    } catch (const BudgetExceededError&) {
      EXPECT_NO_THROW(plain_step());
      MemoryBudget large({.peak_bytes = cpu_memory().current_bytes + 100 * kMiB});
      torch::autograd::grad({within(&large, [&] { return loss(6); })}, {weight_});
    }
    EXPECT_NO_THROW(plain_step());
  }
}

TEST_F(BudgetLimitsTest, AnErrorThatForwardHandlesDoesNotEndTheLimit) {
  MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + 10 * kMiB});
  const at::Tensor root = within(&budget, [&] {
    EXPECT_THROW(torch::ones({kRows, 64}), BudgetExceededError);
    EXPECT_THROW(torch::ones({kRows, 64}), BudgetExceededError);
    return loss(6);
  });
  EXPECT_THROW(torch::ones({kRows, 64}), BudgetExceededError);
  EXPECT_NO_THROW(torch::ones({kRows, 64}));  // that one was outside of forward
  torch::autograd::grad({root}, {weight_});
}

}  // namespace
}  // namespace reprise::testing::budget_limits_test
