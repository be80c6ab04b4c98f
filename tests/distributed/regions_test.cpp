// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions, policies and guards with a PartitionedStore.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "reprise/partition/partitioned_store.h"
#include "reprise/policies/policies.h"
#include "tests/distributed/ranks.h"
#include "tests/distributed/residual_model.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/modules.h"
#include "tests/testing/replay_names.h"

namespace reprise::partitioned_regions_test {
namespace {

using testing::bitwise_equal;
using ::testing::ElementsAre;
using testing::expect_same_bits;
using testing::live_cpu_bytes;
using testing::on_ranks;
using testing::plainly;
using testing::Rank;
using testing::ResidualModel;

using Tensors = std::vector<at::Tensor>;

class PartitionedRegionsTest : public ::testing::TestWithParam<std::tuple<int, ReplayMode>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  static ReplayMode replay() { return std::get<1>(GetParam()); }
};

std::string name_of(const ::testing::TestParamInfo<std::tuple<int, ReplayMode>>& info) {
  return std::to_string(std::get<0>(info.param)) + "_" + to_string(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Ranks, PartitionedRegionsTest,
                         ::testing::Combine(::testing::Values(2, 3),
                                            ::testing::Values(ReplayMode::kFunction,
                                                              ReplayMode::kTape)),
                         name_of);

TEST_P(PartitionedRegionsTest, GradientsAreThoseWithoutIt) {
  on_ranks(ranks(), [](Rank& rank) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
      const CheckpointOptions options{.replay = replay(), .input_store = store};
      const ResidualModel model(dtype);
      const at::Tensor x = at::randn({9, 16}, dtype).requires_grad_();
      const Tensors expected = model.step(x, plainly);
      const auto region = [&](const auto& code, const at::Tensor& h) {
        return checkpoint(options, code, h);
      };
      for (std::size_t step = 1; step <= 3; ++step) {
        expect_same_bits(model.step(x, region), expected);
        EXPECT_EQ(store->counters().gathers, 3 * step);
        // Code between the steps keeps nothing and gathers nothing.
        const torch::NoGradGuard no_grad;
        EXPECT_FALSE(region([](const at::Tensor& t) { return t.exp(); }, x).requires_grad());
      }
    }
  });
}

// As with tensor parallelism turned off.
TEST(PartitionedRegionsOfOneRankTest, AreAsWithoutAStore) {
  on_ranks(1, [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const ResidualModel model(at::kFloat);
    const at::Tensor x = at::randn({9, 16}).requires_grad_();
    const Tensors expected = model.step(x, plainly);
    for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
      const CheckpointOptions options{.replay = replay, .input_store = store};
      const auto region = [&](const auto& code, const at::Tensor& h) {
        return checkpoint(options, code, h);
      };
      expect_same_bits(model.step(x, region), expected);
    }
    EXPECT_EQ(store->counters().gathers, 0U);
  });
}

TEST_P(PartitionedRegionsTest, RegionsInputsAreOneCollectiveAheadOfIt) {
  on_ranks(ranks(), [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const CheckpointOptions options{.replay = replay(), .input_store = store};
    const at::Tensor x = at::randn({50}).requires_grad_();
    const auto code = [](const at::Tensor& a, const at::Tensor& b, const at::Tensor& mask) {
      return at::where(mask, a * b, a.sin());
    };
    std::vector<std::size_t> gathers;  // when backward has come to a region's result
    at::Tensor h = x + 1;
    for (int i = 0; i < 3; ++i) {
      h = checkpoint(options, code, h, h.cos(), at::rand({50}) < 0.5);
      h.register_hook([&](const at::Tensor&) { gathers.push_back(store->counters().gathers); });
    }
    h.sum().backward();
    EXPECT_THAT(gathers, ElementsAre(0, 2, 3));
    EXPECT_EQ(store->counters().gathers, 3U);
  });
}

TEST_P(PartitionedRegionsTest, KeepAnNthOfTheirInputsToTheByte) {
  on_ranks(ranks(), [](Rank& rank) {
    const auto store = stores::partitioned(rank.group);
    const CheckpointOptions options{.replay = replay(), .input_store = store};
    constexpr std::int64_t kBytes = 960 * 64 * 4;  // divides by the ranks without a rest
    const auto code = [](const at::Tensor& t) { return t.sin().sum(); };
    code(at::randn({960, 64}).requires_grad_() + 1).backward();  // fills caches
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor leaf = at::randn({960, 64}).requires_grad_();
    const at::Tensor loss = checkpoint(options, code, leaf + 1);
    EXPECT_EQ(live_cpu_bytes() - before, kBytes + kBytes / rank.size + 4);  // with leaf and loss
    loss.backward();
    EXPECT_TRUE(bitwise_equal(leaf.grad(), (leaf + 1).cos().detach()));
    EXPECT_TRUE(testing::cpu_bytes_come_to(before + 2 * kBytes + 4));  // with the gradient
  });
}

TEST_P(PartitionedRegionsTest, OneTensorForTwoRegionsAndPassedTwice) {
  on_ranks(ranks(), [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const CheckpointOptions options{.replay = replay(), .input_store = store};
    const at::Tensor x = at::randn({31}).requires_grad_();
    const auto product = [](const at::Tensor& a, const at::Tensor& b) { return a.sin() * b; };
    const auto run = [&](const auto& region) {
      const at::Tensor h = x.exp();
      const at::Tensor y = region(product, h, h) + region(product, h, h.t());
      EXPECT_TRUE(bitwise_equal(h, x.exp()));  // the caller's tensor is unchanged
      return torch::autograd::grad({y.sum()}, {x});
    };
    const Tensors expected = run([](const auto& code, const auto&... t) { return code(t...); });
    expect_same_bits(
        run([&](const auto& code, const auto&... t) { return checkpoint(options, code, t...); }),
        expected);
  });
}

TEST_P(PartitionedRegionsTest, LeavesAndArgumentsThatAreNoTensors) {
  on_ranks(ranks(), [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const CheckpointOptions options{.replay = replay(), .input_store = store};
    const at::Tensor leaf = at::randn({31}).requires_grad_();
    const at::Tensor indices = at::randint(0, 31, {64}, at::kLong);
    const auto code = [](const at::Tensor& t, int factor, bool negate, const at::Tensor& nothing,
                         const at::Tensor& index, const std::string& words) {
      const at::Tensor y = t.index_select(0, index).sin() * factor;
      EXPECT_FALSE(nothing.defined());
      EXPECT_EQ(words, "words");
      return (negate ? -y : y).to(at::kDouble).exp();
    };
    const auto gradient = [&](const at::Tensor& y) {
      return torch::autograd::grad({y.sum()}, {leaf});
    };
    const Tensors expected = gradient(code(leaf, 3, true, {}, indices, "words"));
    const at::Tensor y =
        checkpoint(options, code, leaf, 3, true, at::Tensor(), indices, std::string("words"));
    expect_same_bits(gradient(y), expected);
    EXPECT_TRUE(leaf.is_leaf());
    EXPECT_EQ(leaf.sizes(), at::IntArrayRef({31}));
  });
}

TEST_P(PartitionedRegionsTest, TwoBackwardsGatherTwice) {
  on_ranks(ranks(), [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const CheckpointOptions options{.replay = replay(), .input_store = store};
    const at::Tensor x = at::randn({31}).requires_grad_();
    const at::Tensor y = checkpoint(
                             options, [](const at::Tensor& t) { return t.sin().exp(); }, x * 2)
                             .sum();
    const Tensors first = torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true);
    EXPECT_EQ(store->counters().gathers, 1U);
    expect_same_bits(torch::autograd::grad({y}, {x}), first);
    EXPECT_EQ(store->counters().gathers, 2U);
  });
}

TEST_P(PartitionedRegionsTest, CountsResultsThatAPolicyKeeps) {
  on_ranks(ranks(), [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const CheckpointOptions options{.policy = policies::keep_in(store, policies::save_matmuls()),
                                    .replay = replay(),
                                    .input_store = store};
    const ResidualModel model(at::kFloat);
    const at::Tensor x = at::randn({9, 16}).requires_grad_();
    const auto region = [&](const auto& code, const at::Tensor& h) {
      const auto twice = [code](const at::Tensor& t) { return code(code(code(t))); };
      return checkpoint(options, twice, h);
    };
    const Tensors expected =
        model.step(x, [](const auto& code, const at::Tensor& h) { return code(code(code(h))); });
    expect_same_bits(model.step(x, region), expected);
    expect_same_bits(model.step(x, region), expected);
    EXPECT_GT(store->counters().gathers, 6U);  // of the inputs
  });
}

TEST(PartitionedGuardTest, AroundAnyCode) {
  on_ranks(3, [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const ResidualModel model(at::kFloat);
    const at::Tensor x = at::randn({9, 16}).requires_grad_();
    const Tensors expected = model.step(x, plainly);
    const auto guarded = [&](const auto& code, const at::Tensor& h) {
      const StoreGuard guard(stores::packed() | store);
      return code(h);
    };
    expect_same_bits(model.step(x, guarded), expected);
    EXPECT_GT(store->counters().gathers, 3U);
  });
}

TEST(PartitionedScopeTest, KeepsWhatItReads) {
  on_ranks(2, [](Rank& rank) {
    const auto store = stores::partitioned(rank.group, {.min_bytes = 0});
    const ResidualModel model(at::kFloat);
    const at::Tensor x = at::randn({9, 16}).requires_grad_();
    const Tensors expected = model.step(x, plainly);
    const auto scoped = [&](const auto& code, const at::Tensor& h) {
      const CheckpointScope scope({.input_store = store});
      return code(h);
    };
    expect_same_bits(model.step(x, scoped), expected);
    EXPECT_EQ(store->counters().gathers, 3U);
  });
}

}  // namespace
}  // namespace reprise::partitioned_regions_test
