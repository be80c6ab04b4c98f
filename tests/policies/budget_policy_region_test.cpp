// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// BudgetPolicy in regions: kept bytes, gradients, nested regions, threads.
#include <memory>
#include <thread>

#include "reprise/engine/memory_report.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/policies/budget_policy.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::budget_policy_region_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::SizeIs;

std::shared_ptr<BudgetPolicy> policy_of_bytes(std::int64_t bytes) {
  return std::make_shared<BudgetPolicy>(BudgetPolicyOptions{.saved_bytes = bytes});
}

std::shared_ptr<BudgetPolicy> policy_of_fraction(double fraction) {
  return std::make_shared<BudgetPolicy>(BudgetPolicyOptions{.saved_fraction = fraction});
}

class BudgetPolicyRegionTest : public ConformanceTest {
 protected:
  // A residual block, of which backward needs neither the last product nor the sum.
  static at::Tensor block(const at::Tensor& x, const at::Tensor& up, const at::Tensor& down) {
    at::Tensor h = at::gelu(at::layer_norm(x, {x.size(1)}).mm(up));
    h = torch::dropout(h, 0.3, true).relu_();
    return x + h.mm(down);
  }

  at::Tensor run(const CheckpointOptions& options, const at::Tensor& x) {
    return checkpoint(options, &block, x, up_, down_);
  }

  // One step of two regions: the loss, and gradients.
  Tensors step(const auto& run_block, std::int64_t batch) {
    torch::manual_seed(11);
    const at::Tensor x = leaf({batch, 16});
    const at::Tensor y = run_block(run_block(x));
    Tensors found = gradients(y.square(), {x, up_, down_});
    found.push_back(y.detach());
    return found;
  }
  Tensors plain_step(std::int64_t batch) {
    return step([&](const at::Tensor& x) { return block(x, up_, down_); }, batch);
  }
  Tensors step_in_regions(const CheckpointOptions& options, std::int64_t batch) {
    return step([&](const at::Tensor& x) { return run(options, x); }, batch);
  }

  static std::int64_t kept_results(const std::string& region) {
    std::int64_t bytes = 0;
    for (const RegionReport& report : memory_report().regions) {
      for (const OperatorReport& op : report.operators) {
        bytes += report.name == region ? op.kept_bytes : 0;
      }
    }
    return bytes;
  }

  // The bytes of results that one run of such a region keeps.
  std::int64_t kept_by_a_run(const CheckpointOptions& options, std::int64_t batch) {
    const MemoryReportGuard collecting;
    gradients(run(options, leaf({batch, 16})), {up_});
    return kept_results(options.name);
  }

  void TearDown() override {
    up_.reset();
    down_.reset();
    ConformanceTest::TearDown();
  }

  at::Tensor up_ = leaf({16, 64});
  at::Tensor down_ = leaf({64, 16});
};

TEST_F(BudgetPolicyRegionTest, GradientsAreThoseOfThePlainStep) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    for (const double fraction : {0.0, 0.2, 0.5, 0.8, 1.0}) {
      SCOPED_TRACE(fraction);
      const auto policy = policy_of_fraction(fraction);
      for (const std::int64_t batch : {8, 8, 8, 4, 8, 4}) {
        expect_same_bits(
            step_in_regions({.name = "block", .policy = policy, .replay = replay}, batch),
            plain_step(batch));
      }
      EXPECT_THAT(policy->known_runs(), SizeIs(2));
    }
  }
}

TEST_F(BudgetPolicyRegionTest, KeepsNoMoreThanItsBudget) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    for (std::int64_t bytes = 0; bytes < 12000; bytes += 700) {
      SCOPED_TRACE(bytes);
      const CheckpointOptions options = {
          .name = "block", .policy = policy_of_bytes(bytes), .replay = replay};
      EXPECT_EQ(kept_by_a_run(options, 8), 0);
      for (int run = 0; run < 3; ++run) {
        EXPECT_LE(kept_by_a_run(options, 8), bytes);
      }
    }
  }
}

TEST_F(BudgetPolicyRegionTest, KeepsWhatItsPlanSaves) {
  const auto policy = policy_of_fraction(0.5);
  const CheckpointOptions options = {.name = "block", .policy = policy};
  kept_by_a_run(options, 8);
  kept_by_a_run(options, 8);
  const std::int64_t planned = policy->known_runs().at(0).saved_bytes;
  EXPECT_GT(planned, 0);
  EXPECT_EQ(kept_by_a_run(options, 8), planned);
}

TEST_F(BudgetPolicyRegionTest, KeepsTheSameAsSaveEverythingIfAllMayBeSaved) {
  const CheckpointOptions options = {.name = "block", .policy = policy_of_fraction(1)};
  kept_by_a_run(options, 8);
  EXPECT_EQ(kept_by_a_run(options, 8),
            kept_by_a_run({.name = "block", .policy = policies::save_everything()}, 8));
}

// Constants are not kept, the sum at the end is an output, and mm does not save its result.
TEST_F(BudgetPolicyRegionTest, SavesOnlyWhatBackwardNeeds) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const auto policy = policy_of_fraction(1);
    const at::Tensor x = leaf({4, 4});
    for (int run = 0; run < 3; ++run) {
      const MemoryReportGuard collecting;
      gradients(checkpoint(
                    {.name = "needed", .policy = policy, .replay = replay},
                    [](const at::Tensor& t) {
                      const at::Tensor exponentials = t.exp() * at::zeros_like(t);
                      return exponentials.sigmoid().mm(t) + t;
                    },
                    x),
                {x});
      EXPECT_EQ(kept_results("needed"), run == 0 ? 0 : 2 * 64);  // of exp() and sigmoid()
    }
    EXPECT_EQ(policy->known_runs().at(0).result_bytes, 6 * 64);
    EXPECT_EQ(policy->known_runs().at(0).useful_bytes, 2 * 64);
  }
}

// As in dropout: autograd saves the first factor only if the other one, a mask, requires grad.
TEST_F(BudgetPolicyRegionTest, SavesAFactorOnlyIfBackwardNeedsIt) {
  for (const bool mask_requires_grad : {false, true}) {
    const auto policy = policy_of_fraction(1);
    const at::Tensor x = leaf({16});
    const at::Tensor mask = at::ones({16}).requires_grad_(mask_requires_grad);
    gradients(checkpoint(
                  {.name = "masked", .policy = policy},
                  [&](const at::Tensor& t) { return (at::gelu(t) * mask).exp(); }, x),
              {x});
    EXPECT_EQ(policy->known_runs().at(0).useful_bytes, mask_requires_grad ? 2 * 64 : 64);
  }
}

TEST_F(BudgetPolicyRegionTest, KeepsNothingWithoutABudget) {
  for (const auto& policy : {policy_of_bytes(0), policy_of_fraction(0)}) {
    for (int run = 0; run < 3; ++run) {
      EXPECT_EQ(kept_by_a_run({.name = "block", .policy = policy}, 8), 0);
    }
  }
}

TEST_F(BudgetPolicyRegionTest, IsAskedInForwardOnly) {
  const auto policy = policy_of_fraction(0.5);
  for (int run = 0; run < 3; ++run) {
    kept_by_a_run({.name = "block", .policy = policy}, 8);
  }
  EXPECT_THAT(policy->known_runs(), ElementsAre(Field(&BudgetedRun::runs, 3)));
}

TEST_F(BudgetPolicyRegionTest, MarksInTheCodeApplyInAddition) {
  const auto policy = policy_of_bytes(0);
  const at::Tensor x = leaf({4});
  for (int run = 0; run < 3; ++run) {
    const MemoryReportGuard collecting;
    gradients(checkpoint(
                  {.name = "marked", .policy = policy},
                  [](const at::Tensor& t) { return must_save(t.exp()).sin(); }, x),
              {x});
    EXPECT_EQ(kept_results("marked"), 16);
  }
}

TEST_F(BudgetPolicyRegionTest, NestedRegionsKeepWithinBothBudgets) {
  constexpr std::int64_t kOuterBytes = 5000;
  constexpr std::int64_t kInnerBytes = 3000;
  const auto outer = policy_of_bytes(kOuterBytes);
  const auto inner = policy_of_bytes(kInnerBytes);
  const auto blocks = [&](const at::Tensor& x) {
    at::Tensor h = x;
    for (const char* name : {"a", "b", "c"}) {
      h = run({.name = name, .policy = inner}, h).exp();
    }
    return h.sin();
  };
  const auto plain = [&](const at::Tensor& x) {
    at::Tensor h = x;
    for (int i = 0; i < 3; ++i) {
      h = block(h, up_, down_).exp();
    }
    return h.sin();
  };
  for (int step = 0; step < 4; ++step) {
    const at::Tensor x = leaf({8, 16});
    torch::manual_seed(step);
    const Tensors expected = gradients(plain(x), {x, up_, down_});
    const MemoryReportGuard collecting;
    torch::manual_seed(step);
    expect_same_bits(
        gradients(checkpoint({.name = "outer", .policy = outer}, blocks, x), {x, up_, down_}),
        expected);
    EXPECT_LE(kept_results("outer"), kOuterBytes);
    for (const char* name : {"a", "b", "c"}) {
      EXPECT_LE(kept_results(name), kInnerBytes);
    }
    EXPECT_EQ(kept_results("a") > 0, step > 0);
  }
}

TEST_F(BudgetPolicyRegionTest, ThreadsShareThePlansOfARegion) {
  constexpr int kThreads = 3;
  constexpr int kRuns = 10;
  const auto policy = policy_of_fraction(0.5);
  const auto code = [](const at::Tensor& t) { return t.sin().exp().mm(t).tanh().sum(); };
  std::vector<std::thread> threads;
  std::vector<int> differing(kThreads);
  for (int& differs : differing) {
    threads.emplace_back([&] {
      for (int run = 0; run < kRuns; ++run) {
        const at::Tensor x = leaf({6, 6});
        const Tensors expected = torch::autograd::grad({code(x)}, {x});
        const at::Tensor y = checkpoint({.name = "shared", .policy = policy}, code, x);
        differs += bitwise_equal(torch::autograd::grad({y}, {x})[0], expected[0]) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_THAT(differing, Each(0));
  EXPECT_THAT(policy->known_runs(), ElementsAre(Field(&BudgetedRun::runs, kThreads * kRuns)));
}

}  // namespace
}  // namespace reprise::testing::budget_policy_region_test
