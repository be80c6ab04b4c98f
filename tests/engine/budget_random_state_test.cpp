// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Random state around every replay that a budget makes, planned or not, with several steps alive
// and several backwards of each.
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/stores.h"
#include "reprise/rng/rng_state.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::budget_random_state_test {
namespace {

class BudgetRandomStateTest : public BudgetedSteps {
 protected:
  struct Found {
    Tensors gradients;
    std::vector<RngState> states;  // of the generator, after forward and each backward
    std::int64_t growth = 0;

    void note_generator() {
      states.push_back(RngState::capture(at::detail::getDefaultCPUGenerator()));
    }
  };
  using Run = std::function<Found(MemoryBudget* budget)>;
  using Stores = std::vector<std::shared_ptr<ActivationStore>>;

  // Runs it at budgets of `first` to `last` percent of plain's growth, three times each, and
  // expects what plain gives. Returns the bytes that the guard has evicted in all.
  static std::int64_t expect_plain_at_all_budgets(const Run& run, int first, int last, int by,
                                                  const Stores& stores = {}) {
    const auto measured = [&](MemoryBudget* budget) {
      torch::manual_seed(5);
      const std::int64_t before = cpu_memory().current_bytes;
      reset_peak_cpu_memory();
      Found found = run(budget);
      found.growth = cpu_memory().peak_bytes - before;
      return found;
    };
    const Found plain = measured(nullptr);
    std::int64_t evicted = 0;
    for (int part = first; part <= last; part += cases(by, 3 * by)) {
      const std::int64_t limit = cpu_memory().current_bytes + plain.growth * part / 100;
      MemoryBudget budget({.peak_bytes = limit, .stores = stores});
      for (int i = 0; i < 3; ++i) {
        SCOPED_TRACE(c10::str(part, " percent, step ", i));
        try {
          const Found got = measured(&budget);
          expect_same_bits(got.gradients, plain.gradients);
          EXPECT_TRUE(got.states == plain.states) << "the generator stands elsewhere";
          evicted += budget.last_step()->evicted_bytes;
        } catch (const BudgetExceededError&) {
          EXPECT_LT(part, 100);
          hooks_internal::release_nodes_of_failed_backward();
        } catch (const c10::Error& error) {
          ADD_FAILURE() << error.what_without_backtrace();
        }
        EXPECT_EQ(live_frames(), 0);
      }
      if (HasFailure()) {
        return evicted;
      }
    }
    return evicted;
  }
};

TEST_F(BudgetRandomStateTest, TwoStepsAlive) {
  const at::Tensor x = leaf({32, 8});
  const auto forward = [&](MemoryBudget* budget) {
    return within(budget, [&] {
      at::Tensor h = x;
      for (int i = 0; i < 4; ++i) {
        h = h.sin() * 1.1;
        h = h * torch::rand({1});
        h = h.tanh();
      }
      return h.sum();
    });
  };
  const auto run = [&](MemoryBudget* budget) {
    Found found;
    const at::Tensor one = forward(budget);
    const at::Tensor other = forward(budget);
    found.note_generator();
    for (const at::Tensor& loss : {one, other}) {
      found.gradients.push_back(torch::autograd::grad({loss}, {x})[0]);
      found.note_generator();
    }
    return found;
  };
  EXPECT_GT(expect_plain_at_all_budgets(run, 40, 110, 2), 0);
}

TEST_F(BudgetRandomStateTest, TwoBackwardsOfAStep) {
  for (int layers = 3; layers <= cases(5, 3); layers += 2) {
    SCOPED_TRACE(c10::str(layers, " layers"));
    Tensors leaves;
    for (int i = 0; i < layers; ++i) {
      leaves.push_back((torch::randn({16, 16}) * 0.1).requires_grad_());
    }
    leaves.push_back(leaf({16, 16}));
    const auto run = [&](MemoryBudget* budget) {
      const at::Tensor loss = within(budget, [&] {
        at::Tensor h = leaves.back();
        for (int i = 0; i < layers; ++i) {
          const at::Tensor scores = at::softmax(h.mm(leaves[i]).mm(h.t()), 1);
          h = h + at::dropout(scores, 0.1, /*train=*/true).mm(h).tanh();
        }
        return h.sum();
      });
      Found found;
      for (const bool is_first : {true, false}) {
        for (const at::Tensor& gradient :
             torch::autograd::grad({loss}, leaves, {}, /*retain_graph=*/is_first)) {
          found.gradients.push_back(gradient);
        }
        found.note_generator();
      }
      return found;
    };
    EXPECT_GT(expect_plain_at_all_budgets(run, 40, 104, 2), 0);
    expect_plain_at_all_budgets(
        run, 40, 104, 16, {stores::disk({.min_bytes = 0}), stores::compressed({.min_bytes = 0})});
  }
}

// Layers of kinds that need each other's values: parts, writes in place, random numbers.
at::Tensor random_layers(std::uint64_t seed, at::Tensor h, const at::Tensor& w,
                         const at::Tensor& b) {
  std::mt19937_64 random(seed);
  const std::vector<std::function<at::Tensor()>> kinds = {
      [&] { return h + at::gelu(at::linear(h, w, b)); },
      [&] { return at::dropout(h.matmul(w), 0.2, /*train=*/true) + h; },
      [&] { return at::layer_norm(h, {8}, b, b) * h.softmax(1); },
      [&] { return (h * 1.5).add_(h).relu_().tanh(); },
      [&] {
        const Tensors parts = h.chunk(2, 1);
        return at::cat({parts[1].sin(), parts[0] * parts[1]}, 1);
      },
      [&] { return std::get<0>(at::sort(h, 0)) * 0.5 + h.cumsum(0).tanh(); },
      [&] {
        at::Tensor y = h.clone();
        y.narrow(1, 0, 3).mul_(b.narrow(0, 0, 3));
        return y.exp().clamp_max(3);
      },
      [&] { return torch::rand_like(h) * h + torch::empty_like(h).bernoulli_(0.5) * h.tanh(); },
      [&] { return h * torch::rand({1}) + h.matmul(w).matmul(w); },
      [&] {
        const at::Tensor y = h.sin();
        const at::Tensor z = y.exp();
        return (z * y).cos() + z.view({-1}).narrow(0, 0, 8);
      }};
  for (int i = 0; i < 8; ++i) {
    h = kinds[random() % kinds.size()]();
  }
  return h.square().mean();
}

TEST_F(BudgetRandomStateTest, TwoStepsOfRandomLayersAlive) {
  std::int64_t evicted = 0;
  for (std::uint64_t seed = 0; seed < cases(6U, 2U) && !HasFailure(); ++seed) {
    SCOPED_TRACE(c10::str("seed ", seed));
    torch::manual_seed(static_cast<std::int64_t>(seed));
    const Tensors leaves = {(torch::randn({8, 8}) * 0.4).requires_grad_(), leaf({8}),
                            leaf({256, 8})};
    const auto run = [&](MemoryBudget* budget) {
      const auto forward = [&] {
        return within(budget, [&] { return random_layers(seed, leaves[2], leaves[0], leaves[1]); });
      };
      Tensors losses = {forward(), forward()};
      Found found;
      for (const std::uint64_t which : {seed % 2, 1 - seed % 2}) {
        const Tensors gradients =
            torch::autograd::grad({losses[which]}, leaves, {}, false, false, /*allow_unused=*/true);
        for (const at::Tensor& gradient : gradients) {
          found.gradients.push_back(gradient.defined() ? gradient : torch::zeros({}));
        }
        found.note_generator();
      }
      return found;
    };
    evicted += expect_plain_at_all_budgets(run, 30, 105, 15);
  }
  EXPECT_GT(evicted, 0);
}

}  // namespace
}  // namespace reprise::testing::budget_random_state_test
