// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators that save a tensor and fill it afterwards: see Note [Final contents].
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/hooks/diary_store.h"
#include "tests/testing/bitwise.h"

namespace reprise::final_contents_test {
namespace {

using testing::bitwise_equal;
using testing::DiaryStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Store = std::shared_ptr<ActivationStore>;

// Reads the tensor in put().
class CloningStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    if (fails) {
      throw std::runtime_error("the store is shut");
    }
    return stores::device()->put(tensor.clone());
  }
  bool fails = false;
};

at::Tensor leaf() { return at::arange(1.0, 9.0, at::kDouble).requires_grad_(); }
at::Tensor factor() { return at::arange(3.0, 11.0, at::kDouble); }

std::vector<std::pair<std::string, Store>> eager_stores() {
  const Store disk = stores::disk({.min_bytes = 0, .keep_last = 0});
  return {{"clones", std::make_shared<CloningStore>()},
          {"disk", disk},
          {"slab", stores::slab({.min_bytes = 0})},
          {"packed | disk", stores::packed() | disk},
          {"compressed", stores::compressed({.min_bytes = 0, .keep_last = 0})}};
}

at::Tensor gradient_of_rrelu(const at::Tensor& x, const Store& store) {
  at::manual_seed(5);
  at::Tensor loss;
  {
    const StoreGuard guard(store);
    const at::Tensor h = at::rrelu(x * 2, 1.0 / 8, 1.0 / 3, /*training=*/true);
    loss = at::rrelu(h + 1, 1.0 / 8, 1.0 / 3, /*training=*/true).sum();
  }
  return torch::autograd::grad({loss}, {x})[0];
}

TEST(FinalContentsTest, NoiseThatIsFilledAfterItsSave) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({64, 256}).requires_grad_();
  const at::Tensor expected = gradient_of_rrelu(x, stores::device());
  for (const auto& [name, store] : eager_stores()) {
    SCOPED_TRACE(name);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(bitwise_equal(gradient_of_rrelu(x, store), expected));
    }
  }
}

TEST(FinalContentsTest, IsPutWhenAnotherOperatorSaves) {
  const auto diary = std::make_shared<DiaryStore>();
  const StoreGuard guard(diary);
  const at::Tensor y = leaf() * factor();
  EXPECT_EQ(diary->puts(), 0);
  const at::Tensor z = y.sin();  // y has a graph
  EXPECT_EQ(diary->puts(), 2);
}

TEST(FinalContentsTest, IsPutAtTheEndOfTheGuard) {
  const auto diary = std::make_shared<DiaryStore>();
  at::Tensor y;
  {
    const StoreGuard guard(diary);
    y = leaf() * factor();
    EXPECT_EQ(diary->puts(), 0);
  }
  EXPECT_EQ(diary->puts(), 1);
}

TEST(FinalContentsTest, IsPutWhenBackwardAsks) {
  const auto diary = std::make_shared<DiaryStore>();
  const at::Tensor x = leaf();
  const at::Tensor w = factor();
  const StoreGuard guard(diary);
  const at::Tensor y = x * w;
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], w));
  EXPECT_EQ(diary->puts(), 1);
  EXPECT_THAT(diary->take_lines(), ElementsAre("get 0"));
}

TEST(FinalContentsTest, IsNotPutOnceItsGraphIsGone) {
  const auto diary = std::make_shared<DiaryStore>();
  {
    const StoreGuard guard(diary);
    static_cast<void>(leaf() * factor());
  }
  EXPECT_EQ(diary->puts(), 0);
}

TEST(FinalContentsTest, ChangesBeforeItAreErrorsAsWithoutAStore) {
  for (const auto& [name, store] : eager_stores()) {
    SCOPED_TRACE(name);
    const at::Tensor x = leaf();
    at::Tensor w = factor();
    at::Tensor y;
    {
      const StoreGuard guard(store);
      y = x * w;
      w.add_(1);
    }
    EXPECT_THAT([&] { y.sum().backward(); },
                ThrowsMessage<c10::Error>(HasSubstr("modified by an inplace operation")));
  }
}

TEST(FinalContentsTest, AStoreThatFailsSaysSoAtTheNextOperatorOrInBackward) {
  const auto store = std::make_shared<CloningStore>();
  store->fails = true;
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const StoreGuard guard(store);
    y = x * factor();
    EXPECT_THAT([&] { static_cast<void>(y * factor()); },
                ThrowsMessage<std::runtime_error>("the store is shut"));
  }
  EXPECT_THAT([&] { y.sum().backward(); }, ThrowsMessage<std::runtime_error>("the store is shut"));
  store->fails = false;
  y.sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), factor()));
}

// Saves one tensor twice, and notes whether backward finds it to be one.
class SavesTwice : public torch::autograd::Function<SavesTwice> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w) {
    context->save_for_backward({w, w.detach(), w});
    return x * w;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    is_one = saved[0].is_same(saved[2]);
    is_other = !saved[0].is_same(saved[1]);
    return {gradients[0] * saved[0], at::Tensor()};
  }
  inline static bool is_one = false;
  inline static bool is_other = false;
};

TEST(FinalContentsTest, AnObjectThatIsSavedTwiceIsOneObjectInBackward) {
  auto stores = eager_stores();
  stores.emplace_back("diary", std::make_shared<DiaryStore>());
  stores.emplace_back("device", stores::device());
  stores.emplace_back("packed", stores::packed({.min_bytes = 0, .find_constants = true}));
  for (const auto& [name, store] : stores) {
    SCOPED_TRACE(name);
    const at::Tensor x = leaf();
    at::Tensor y;
    {
      const StoreGuard guard(store);
      y = SavesTwice::apply(x, factor());
    }
    for (int i = 0; i < 2; ++i) {
      const auto gradients = torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true);
      EXPECT_TRUE(bitwise_equal(gradients[0], factor()));
      EXPECT_TRUE(SavesTwice::is_one);
      EXPECT_TRUE(SavesTwice::is_other);
    }
  }
}

}  // namespace
}  // namespace reprise::final_contents_test
