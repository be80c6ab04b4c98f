// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// CheckpointOptions::input_store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/diary_store.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/replay_names.h"

namespace reprise::input_store_test {
namespace {

using testing::bitwise_equal;
using ::testing::Contains;
using testing::DiaryStore;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::live_cpu_bytes;

at::Tensor leaf() { return at::arange(1.0, 6.0, at::kDouble).requires_grad_(); }

class InputStoreTest : public ::testing::TestWithParam<ReplayMode> {
 protected:
  CheckpointOptions options(int prefetch_depth = 1) const {
    return {.replay = GetParam(), .input_store = diary, .prefetch_depth = prefetch_depth};
  }

  const std::shared_ptr<DiaryStore> diary = std::make_shared<DiaryStore>();
};

INSTANTIATE_TEST_SUITE_P(Forms, InputStoreTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         testing::replay_name);

at::Tensor block(const at::Tensor& h) { return h.sin().cos().exp(); }

TEST_P(InputStoreTest, KeepsWhatTheRegionTakesAndNothingElse) {
  const at::Tensor x = leaf();
  const at::Tensor weight = leaf();
  const auto weighted = [&](const at::Tensor& h, const at::Tensor& w) { return block(h) * w; };
  const at::Tensor expected = torch::autograd::grad({weighted(x + 1, weight).sum()}, {x})[0];
  const at::Tensor y = checkpoint(options(), weighted, x + 1, weight);
  EXPECT_EQ(diary->puts(), 1);  // the weight stays where it is
  EXPECT_THAT(diary->take_lines(), IsEmpty());
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
  EXPECT_THAT(diary->take_lines(), Contains("get 0").Times(1));
}

TEST_P(InputStoreTest, BackwardThroughARegionPrefetchesForThoseBefore) {
  const at::Tensor x = leaf();
  const std::vector<std::vector<std::string>> expected = {
      {"prefetch 2", "get 2", "prefetch 1", "get 1", "prefetch 0", "get 0"},
      {"prefetch 2", "prefetch 1", "get 2", "prefetch 1", "prefetch 0", "get 1", "prefetch 0",
       "get 0"},
      {"prefetch 2", "prefetch 1", "prefetch 0", "get 2", "prefetch 1", "prefetch 0", "get 1",
       "prefetch 0", "get 0"}};
  for (int depth = 0; depth < 3; ++depth) {
    const auto diary = std::make_shared<DiaryStore>();
    CheckpointOptions options{.replay = GetParam(), .input_store = diary, .prefetch_depth = depth};
    at::Tensor h = x + 1;
    for (int i = 0; i < 3; ++i) {
      h = checkpoint(options, block, h);
    }
    h.sum().backward();
    EXPECT_THAT(diary->take_lines(), ElementsAreArray(expected[static_cast<std::size_t>(depth)]));
  }
}

TEST_P(InputStoreTest, GoesBeforeSurroundingHooks) {
  const at::Tensor x = leaf();
  int packed = 0;
  at::Tensor y;
  {
    const SavedTensorHooksGuard hooks(
        [&packed](const at::Tensor& tensor) {
          ++packed;
          return tensor;
        },
        [](const at::Tensor& tensor) { return tensor; });
    y = checkpoint(options(), block, x + 1);
  }
  EXPECT_EQ(packed, 0);
  EXPECT_EQ(diary->puts(), 1);
}

TEST_P(InputStoreTest, HoldsTheBytesThatTheStoreHolds) {
  const at::Tensor x = at::randn({1000}).requires_grad_();
  const at::Tensor keep = at::rand({64, 1000}) < 0.5;
  const auto masked = [](const at::Tensor& h, const at::Tensor& mask) {
    return at::where(mask, h, 0.0).sin();
  };
  const at::Tensor expected = torch::autograd::grad({masked(x, keep).sum()}, {x})[0];
  const CheckpointOptions options{.replay = GetParam(), .input_store = stores::packed()};
  const std::int64_t before = live_cpu_bytes();
  const at::Tensor y = checkpoint(options, masked, x, keep.clone());
  const at::Tensor z = checkpoint(options, masked, x, keep.clone());
  // The bits, the last mask, which is not packed yet, y and z.
  EXPECT_EQ(live_cpu_bytes() - before, 64 * 1000 / 8 + 64 * 1000 + 2 * 64 * 1000 * 4);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({z.sum()}, {x})[0], expected));
}

TEST_P(InputStoreTest, AsksInEachReplayInsideAnotherRegion) {
  const at::Tensor x = leaf();
  const auto nested = [&](const at::Tensor& h) {
    return block(checkpoint(options(), block, h * 2));
  };
  const at::Tensor expected = torch::autograd::grad({block(block(x * 2)).sum()}, {x})[0];
  const at::Tensor y = checkpoint({.replay = ReplayMode::kFunction}, nested, x);
  EXPECT_EQ(diary->puts(), 1);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
  EXPECT_EQ(diary->puts(), 2);
}

TEST(InputStoreOptionTest, RefusesNegativeDepth) {
  EXPECT_THAT(
      [] { checkpoint({.prefetch_depth = -1}, block, leaf()); },
      ::testing::ThrowsMessage<std::invalid_argument>(HasSubstr("prefetch_depth is negative: -1")));
}

}  // namespace
}  // namespace reprise::input_store_test
