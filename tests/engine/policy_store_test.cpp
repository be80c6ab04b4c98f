// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Stores as a policy's answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/hooks/diary_store.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/replay_names.h"

namespace reprise::policy_store_test {
namespace {

using testing::bitwise_equal;
using testing::DiaryStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::live_cpu_bytes;

at::Tensor leaf() { return at::arange(1.0, 6.0, at::kDouble).div(7).requires_grad_(); }

at::Tensor gradient(const at::Tensor& y, const at::Tensor& x) {
  return torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
}

class PolicyStoreTest : public ::testing::TestWithParam<ReplayMode> {
 protected:
  CheckpointOptions options(std::string op, std::shared_ptr<ActivationStore> store) const {
    return {
        .policy = policies::keep_in(std::move(store), policies::save_operators({std::move(op)})),
        .replay = GetParam()};
  }

  const std::shared_ptr<DiaryStore> diary = std::make_shared<DiaryStore>();
};

INSTANTIATE_TEST_SUITE_P(Forms, PolicyStoreTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         testing::replay_name);

at::Tensor block(const at::Tensor& h) { return h.sin().exp().cos(); }

TEST_P(PolicyStoreTest, HasWhatThePolicyKeepsAndNothingElse) {
  const at::Tensor x = leaf();
  const at::Tensor y = checkpoint(options("aten::exp", diary), block, x);
  EXPECT_EQ(diary->puts(), 1);
  EXPECT_THAT(diary->take_lines(), IsEmpty());
  const at::Tensor expected = gradient(block(x), x);
  EXPECT_TRUE(bitwise_equal(gradient(y, x), expected));
  EXPECT_EQ(std::ranges::count(diary->take_lines(), "get 0"), 1);
  EXPECT_TRUE(bitwise_equal(gradient(y, x), expected));  // again
}

TEST_P(PolicyStoreTest, FetchesSharedValuesOnce) {
  const at::Tensor x = at::randn({8, 8}).requires_grad_();
  const auto code = [&](const at::Tensor& h) {
    const at::Tensor inner = at::mm(h, h).sin();
    return at::mm(at::where(inner > 0, inner, inner * 0.1), h).tanh();
  };
  const at::Tensor y = checkpoint(options("aten::sin", diary), code, x);
  EXPECT_TRUE(bitwise_equal(gradient(y, x), gradient(code(x), x)));
  EXPECT_EQ(std::ranges::count(diary->take_lines(), "get 0"), 1);
}

TEST_P(PolicyStoreTest, BackwardThroughARegionPrefetchesForThoseBefore) {
  for (int depth = 0; depth < 3; ++depth) {
    const auto diary = std::make_shared<DiaryStore>();
    CheckpointOptions regions = options("aten::exp", diary);
    regions.prefetch_depth = depth;
    at::Tensor h = leaf();
    for (int i = 0; i < 4; ++i) {
      h = checkpoint(regions, block, h);
    }
    h.sum().backward();
    const std::vector<std::string> lines = diary->take_lines();
    const auto at = [&](const std::string& line) {
      return std::ranges::find(lines, line) - lines.begin();
    };
    for (int i = 0; i < 4; ++i) {
      const int asks_first = std::min(i + depth, 3);  // the region that starts to bring i back
      EXPECT_LT(at(c10::str("prefetch ", i)), at(c10::str("get ", asks_first)));
      EXPECT_LT(asks_first == 3 ? -1 : at(c10::str("get ", asks_first + 1)),
                at(c10::str("prefetch ", i)));
    }
  }
}

TEST_P(PolicyStoreTest, WritesInPlaceAreNoChangeOfWhatIsKept) {
  const auto code = [](const at::Tensor& h) {
    const at::Tensor kept = h.sin();
    const at::Tensor before = kept.exp();
    kept.mul_(2);
    return before * kept.cos();
  };
  const at::Tensor x = leaf();
  const at::Tensor expected = gradient(code(x), x);
  for (const auto& store : {std::shared_ptr<ActivationStore>(diary), stores::device(),
                            stores::packed({.min_bytes = 0, .find_constants = true})}) {
    const at::Tensor y = checkpoint(options("aten::sin", store), code, x);
    EXPECT_TRUE(bitwise_equal(gradient(y, x), expected));
    EXPECT_TRUE(bitwise_equal(gradient(y, x), expected));
  }
}

TEST_P(PolicyStoreTest, KeepsTargetsAsTheirOperatorLeavesThem) {
  const auto code = [](const at::Tensor& h) { return (h * 2).exp_().sin(); };
  const at::Tensor x = leaf();
  const at::Tensor y = checkpoint(options("aten::exp_", diary), code, x);
  EXPECT_EQ(diary->puts(), 1);
  EXPECT_TRUE(bitwise_equal(gradient(y, x), gradient(code(x), x)));
}

// rrelu writes its noise, made by empty_like(), without counting it, and reads that in backward.
// The store must not be given the memory before that: it holds each storage once.
TEST(PolicyStoreOfATapeTest, IsNotGivenMemoryThatIsStillToBeFilled) {
  const at::Tensor x = leaf();
  const auto code = [](const at::Tensor& h) { return at::rrelu(h.sin() - 0.5, 0.1, 0.9, true); };
  torch::manual_seed(5);
  const at::Tensor expected = gradient(code(x), x);
  const auto store = stores::slab({.min_bytes = 1});
  torch::manual_seed(5);
  const at::Tensor y = checkpoint(
      {.policy = policies::keep_in(store, policies::save_operators({"aten::empty_like"})),
       .replay = ReplayMode::kTape,
       .input_store = store},
      code, x);
  EXPECT_TRUE(bitwise_equal(gradient(y, x), expected));
}

TEST_P(PolicyStoreTest, TakesLessRoom) {
  const at::Tensor x = at::randn({64, 64}).requires_grad_();
  const auto code = [](const at::Tensor& h) {
    const at::Tensor mask = h > 0;
    return at::where(mask, h.sin(), h);
  };
  const auto kept_bytes = [&](const std::shared_ptr<ActivationStore>& store) {
    const std::int64_t before = live_cpu_bytes();
    const at::Tensor y = checkpoint(options("aten::gt.Scalar", store), code, x);
    const std::int64_t kept = live_cpu_bytes() - before - static_cast<std::int64_t>(y.nbytes());
    EXPECT_TRUE(bitwise_equal(gradient(y, x), gradient(code(x), x)));
    return kept;
  };
  EXPECT_EQ(kept_bytes(stores::device()) - kept_bytes(stores::packed()), 64 * 64 * 7 / 8);
}

TEST_P(PolicyStoreTest, AnswersOfNestedRegionsAgreeOnAPlace) {
  const auto outer_diary = std::make_shared<DiaryStore>();
  const at::Tensor x = leaf();
  const auto answering = [](CheckpointPolicy answer, const std::shared_ptr<DiaryStore>& store) {
    return [answer, store](const PolicyContext& context) {
      return context.op() == "aten::exp" ? PolicyAnswer(answer, store)
                                         : PolicyAnswer(CheckpointPolicy::PREFER_RECOMPUTE);
    };
  };
  const auto run = [&](const PolicyHolder& outer, const PolicyHolder& inner) {
    const at::Tensor y = checkpoint(
        {.policy = outer, .replay = GetParam()},
        [&](const at::Tensor& h) {
          return checkpoint({.policy = inner, .replay = GetParam()}, block, h);
        },
        x);
    EXPECT_TRUE(bitwise_equal(gradient(y, x), gradient(block(x), x)));
  };
  using enum CheckpointPolicy;
  for (const CheckpointPolicy inner : {PREFER_SAVE, MUST_SAVE}) {
    run(answering(MUST_SAVE, outer_diary), answering(inner, diary));
  }
  EXPECT_EQ(diary->puts(), 0);
  EXPECT_EQ(outer_diary->puts(), 2 + 2);  // for each of the regions
  run(answering(PREFER_SAVE, outer_diary), answering(PREFER_SAVE, diary));
  EXPECT_EQ(diary->puts(), 2);
}

TEST_P(PolicyStoreTest, FailureOfTheStoreLeavesNothingBehind) {
  class Failing final : public ActivationStore {
   public:
    std::unique_ptr<StoredTensor> put(const at::Tensor& /*tensor*/) override {
      throw std::runtime_error("no room at all");
    }
  };
  const at::Tensor x = leaf();
  const std::int64_t before = live_cpu_bytes();
  const auto run = [&](const std::string& op) {
    checkpoint(
        options(op, std::make_shared<Failing>()),
        [](const at::Tensor& h) { return (h * 2).exp_().sin(); }, x);
  };
  for (const std::string op : {"aten::mul.Scalar", "aten::exp_"}) {
    SCOPED_TRACE(op);
    EXPECT_THAT([&] { run(op); },
                ::testing::ThrowsMessage<std::runtime_error>(HasSubstr("no room at all")));
    EXPECT_EQ(live_cpu_bytes(), before);
  }
  const at::Tensor y = checkpoint(options("aten::exp", diary), block, x);
  EXPECT_TRUE(bitwise_equal(gradient(y, x), gradient(block(x), x)));
}

}  // namespace
}  // namespace reprise::policy_store_test
