// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/store_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/checkpoint.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/diary_store.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/node_counter.h"

namespace reprise::store_guard_test {
namespace {

using testing::bitwise_equal;
using testing::DiaryStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::live_cpu_bytes;
using ::testing::ThrowsMessage;

at::Tensor leaf() { return at::arange(1.0, 6.0, at::kDouble).requires_grad_(); }

TEST(StoreGuardTest, GradientsAreThoseWithoutAndMasksAreBits) {
  torch::manual_seed(3);
  const at::Tensor x = at::randn({64, 128}).requires_grad_();
  const at::Tensor keep = at::rand({64, 128}) < 0.9;
  const auto forward = [&] { return at::where(keep.clone(), x, 0.0).sum(); };
  const at::Tensor expected = torch::autograd::grad({forward()}, {x})[0];
  const std::int64_t before = live_cpu_bytes();
  at::Tensor y;
  {
    const StoreGuard guard(stores::packed());
    y = forward();
  }
  EXPECT_EQ(live_cpu_bytes() - before, 64 * 128 / 8 + 4);  // the mask, and y
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y}, {x})[0], expected));
}

TEST(StoreGuardTest, ParametersAndTheirViewsStayWhereTheyAre) {
  torch::nn::Linear linear(8, 8);
  const at::Tensor x = at::randn({4, 8}).requires_grad_();
  const at::Tensor input = x.sin();  // saves x, which is a leaf as well
  const auto diary = std::make_shared<DiaryStore>();
  at::Tensor y;
  {
    const StoreGuard guard(diary);
    y = linear(input);  // saves the input, and the weight, transposed
  }
  EXPECT_EQ(diary->puts(), 1);
  const auto gradients = torch::autograd::grad({y.sum()}, {x, linear->weight}, {}, true);
  const auto expected = torch::autograd::grad({linear(input).sum()}, {x, linear->weight});
  EXPECT_TRUE(bitwise_equal(gradients[0], expected[0]));
  EXPECT_TRUE(bitwise_equal(gradients[1], expected[1]));
  {
    const at::NoGradGuard no_grad;
    linear->weight.add_(1);
  }
  EXPECT_THAT([&] { y.sum().backward(); },
              ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
}

TEST(StoreGuardTest, PrefetchesInTheOrderOfBackward) {
  for (const auto& [depth, expected] : std::vector<std::pair<int, std::vector<std::string>>>{
           {0, {"prefetch 2", "get 2", "prefetch 1", "get 1", "prefetch 0", "get 0"}},
           {1,
            {"prefetch 2", "prefetch 1", "get 2", "prefetch 1", "prefetch 0", "get 1", "prefetch 0",
             "get 0"}},
           {2,
            {"prefetch 2", "prefetch 1", "prefetch 0", "get 2", "prefetch 1", "prefetch 0", "get 1",
             "prefetch 0", "get 0"}}}) {
    const auto diary = std::make_shared<DiaryStore>();
    const at::Tensor x = leaf();
    at::Tensor y;
    {
      const StoreGuard guard(diary, {.prefetch_depth = depth});
      y = (x + 1).sin().cos().exp();
    }
    y.sum().backward();
    EXPECT_EQ(diary->take_lines(), expected);
  }
}

TEST(StoreGuardTest, PrefetchesNoUnneededTensors) {
  const auto diary = std::make_shared<DiaryStore>();
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const StoreGuard guard(diary);
    const at::Tensor h = (x + 1).sin();
    static_cast<void>((h + 1).sin());  // 1: its graph is gone
    y = h.exp();
  }
  y.sum().backward();
  EXPECT_THAT(diary->take_lines(),
              ElementsAre("prefetch 2", "prefetch 0", "get 2", "prefetch 0", "get 0"));
}

TEST(StoreGuardTest, SecondBackwardGetsAgain) {
  const auto diary = std::make_shared<DiaryStore>();
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const StoreGuard guard(diary, {.prefetch_depth = 0});
    y = (x + 1).sin();
  }
  const auto first = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true)[0];
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], first));
  EXPECT_THAT(diary->take_lines(), ElementsAre("prefetch 0", "get 0", "prefetch 0", "get 0"));
}

TEST(StoreGuardTest, AroundRegionsTheirInputsGoThere) {
  const auto diary = std::make_shared<DiaryStore>();
  const at::Tensor x = leaf();
  const auto block = [](const at::Tensor& h) { return h.sin().cos().exp(); };
  const at::Tensor expected = torch::autograd::grad({block(block(x + 1)).sum()}, {x})[0];
  at::Tensor y;
  {
    const StoreGuard guard(diary);
    y = checkpoint(block, checkpoint(block, x + 1));
  }
  EXPECT_EQ(diary->puts(), 2);
  EXPECT_THAT(diary->take_lines(), IsEmpty());
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
  EXPECT_THAT(diary->take_lines(),
              ElementsAre("prefetch 1", "prefetch 0", "get 1", "prefetch 0", "get 0"));
}

TEST(StoreGuardTest, ResultThatIsKeptMakesNoCycle) {
  testing::NodeCounter nodes;
  const std::int64_t before = live_cpu_bytes();
  {
    const at::Tensor x = leaf();
    const StoreGuard guard(stores::device());
    const at::Tensor y = x.exp().exp();
    nodes.watch(y);
    EXPECT_EQ(nodes.alive(), 3U);
  }
  EXPECT_EQ(nodes.alive(), 0U);
  EXPECT_EQ(live_cpu_bytes(), before);
}

class FailingStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& /*tensor*/) override {
    throw std::runtime_error("the store is shut");
  }
};

TEST(StoreGuardTest, ThrowsTheStoresExceptionAtTheOperator) {
  const at::Tensor x = leaf();
  {
    const StoreGuard guard(std::make_shared<FailingStore>());
    EXPECT_THAT([&] { (x + 1).sin(); }, ThrowsMessage<std::runtime_error>("the store is shut"));
  }
  EXPECT_TRUE((x + 1).sin().requires_grad());
}

TEST(StoreGuardTest, RefusesWhatCannotWork) {
  EXPECT_THAT([] { StoreGuard guard(nullptr); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("null pointer")));
  EXPECT_THAT([] { StoreGuard guard(stores::device(), {.prefetch_depth = -1}); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("prefetch_depth is negative: -1")));
  const DisableSavedTensorHooksGuard disabled("no stores here");
  EXPECT_THAT([] { StoreGuard guard(stores::device()); },
              ThrowsMessage<c10::Error>(HasSubstr("no stores here")));
}

}  // namespace
}  // namespace reprise::store_guard_test
