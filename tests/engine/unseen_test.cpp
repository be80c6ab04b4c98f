// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators of stores and hooks are not part of the regions around them.
#include <ATen/autocast_mode.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/report/operator_log.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/replay_names.h"

namespace reprise::unseen_test {
namespace {

using testing::bitwise_equal;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::leaf;
using testing::Tensors;

using StorePtr = std::shared_ptr<ActivationStore>;

// A store as users write them: runs operators, with autograd if it is let, and in autocast's dtype.
class BusyStore final : public ActivationStore {
 public:
  std::unique_ptr<StoredTensor> put(const at::Tensor& tensor) override {
    EXPECT_FALSE(at::GradMode::is_enabled());
    return std::make_unique<Entry>(tensor);
  }

 private:
  class Entry final : public StoredTensor {
   public:
    explicit Entry(const at::Tensor& tensor) : sizes_(tensor.sizes().vec()) {
      kept_ = at::mm(at::eye(tensor.numel()), tensor.detach().reshape({-1, 1}));
      EXPECT_EQ(kept_.scalar_type(), at::kFloat);
      const at::AutoGradMode on(true);
      at::zeros({2}).requires_grad_().exp();  // saves its result
    }
    ~Entry() override { kept_.zero_(); }
    void prefetch() override { kept_.add(1); }
    at::Tensor get() override { return kept_.clone().view(sizes_); }
    [[nodiscard]] std::int64_t device_bytes() const override { return kept_.nbytes(); }

   private:
    const std::vector<std::int64_t> sizes_;
    at::Tensor kept_;
  };
};

at::Tensor inner(const at::Tensor& t) { return (t.exp() * t).tanh() * t; }

// The names that a policy is asked about.
PolicyHolder names_into(std::vector<std::string>& names) {
  return [&names](const PolicyContext& context) {
    names.emplace_back(context.op());
    return CheckpointPolicy::PREFER_RECOMPUTE;
  };
}

class UnseenTest : public testing::ConformanceTest,
                   public ::testing::WithParamInterface<ReplayMode> {
 protected:
  // In a region, on a leaf, with the gradient as it is without.
  void expect_gradient(const PolicyHolder& policy,
                       const std::function<at::Tensor(const at::Tensor&)>& code,
                       const std::function<at::Tensor(const at::Tensor&)>& plain) {
    const at::Tensor x = leaf({6, 8});
    const at::Tensor expected = gradients(plain(x), {x})[0];
    CheckpointOptions options{.policy = policy, .replay = GetParam()};
    EXPECT_TRUE(bitwise_equal(gradients(checkpoint(options, code, x), {x})[0], expected));
  }
};

INSTANTIATE_TEST_SUITE_P(Forms, UnseenTest,
                         ::testing::Values(ReplayMode::kFunction, ReplayMode::kTape),
                         testing::replay_name);

TEST_P(UnseenTest, PolicyIsNotAskedAboutAStoresOperators) {
  std::vector<std::string> names;
  const auto store = std::make_shared<BusyStore>();
  expect_gradient(
      names_into(names),
      [&](const at::Tensor& t) {
        const at::Tensor y = checkpoint({.input_store = store}, inner, t.cos());
        const StoreGuard guard(store);
        return y.sin();
      },
      [](const at::Tensor& t) { return inner(t.cos()).sin(); });
  EXPECT_THAT(names, ElementsAre("aten::cos", "aten::exp", "aten::mul", "aten::tanh", "aten::mul",
                                 "aten::sin"));
}

// Times its gradient, for which the saved tensor is unpacked in the region.
at::Tensor times_gradient(const at::Tensor& t) {
  const at::Tensor y = t.exp();
  return y * torch::autograd::grad({y.sum()}, {t}, {}, /*retain_graph=*/true)[0].detach();
}

TEST_P(UnseenTest, PolicyIsNotAskedAboutAHooksOperators) {
  std::vector<std::string> names;
  expect_gradient(
      names_into(names),
      [](const at::Tensor& t) {
        const SavedTensorHooksGuard hooks([](const at::Tensor& s) { return s.mul(2); },
                                          [](const at::Tensor& s) { return s.div(2); });
        return times_gradient(t);
      },
      times_gradient);
  EXPECT_THAT(names, ElementsAre("aten::exp", "aten::sum", "aten::ones_like", "aten::mul"));
}

// Met by a fuzzer that gives regions inside regions stores of their own.
TEST_P(UnseenTest, AllowsStoreToServeARegionAndThePolicyAroundIt) {
  const std::vector<std::function<StorePtr()>> makers = {
      [] { return stores::slab({.min_bytes = 1}); },
      [] { return stores::slab({.initial_bytes = 1 << 20, .min_bytes = 1}); },
      [] { return stores::packed({.min_bytes = 1}); },
      [] { return stores::compressed({.max_ratio = 100, .min_bytes = 1, .keep_last = 0}); },
      [] { return stores::disk({.min_bytes = 1, .keep_last = 0, .direct = false}); },
      [] { return std::make_shared<BusyStore>(); }};
  const auto plain = [](const at::Tensor& t) {
    const at::Tensor y = t.sin() * 2;
    return (inner(y).cos() * y).exp();
  };
  for (std::size_t i = 0; i < makers.size(); ++i) {
    SCOPED_TRACE(i);
    const StorePtr store = makers[i]();
    const auto as_inputs = [store](const at::Tensor& t) {
      const at::Tensor y = t.sin() * 2;
      return (checkpoint({.input_store = store}, inner, y).cos() * y).exp();
    };
    const auto as_guard = [store](const at::Tensor& t) {
      at::Tensor y = t.sin() * 2;
      {
        const StoreGuard guard(store);
        y = inner(y).cos() * y;
      }
      return y.exp();
    };
    for (const PolicyHolder& policy :
         {policies::keep_in(store, policies::save_everything()),
          policies::keep_in(store, policies::save_operators({"aten::empty.memory_format"})),
          PolicyHolder(policies::save_nothing()), PolicyHolder()}) {
      expect_gradient(policy, as_inputs, plain);
      expect_gradient(policy, as_guard, plain);
    }
  }
}

// A slab's allocation is larger than the results that a policy keeps of that size.
TEST_P(UnseenTest, SlabsOwnMemoryIsNotKeptInTheSlab) {
  const StorePtr store = stores::slab({.initial_bytes = 1 << 20, .min_bytes = 1});
  const PolicyHolder large = policies::keep_in(
      store, policies::save_where([](const at::Tensor& t) { return t.nbytes() >= (1U << 19); }));
  expect_gradient(
      large,
      [&](const at::Tensor& t) { return checkpoint({.input_store = store}, inner, t.sin()); },
      [](const at::Tensor& t) { return inner(t.sin()); });
}

// A hook writes to its memory in a replay as it does in forward.
TEST_P(UnseenTest, HooksWritesAreNotLeftOutOfAReplay) {
  const auto pool = std::make_shared<std::vector<at::Tensor>>();
  for (int i = 0; i < 8; ++i) {
    pool->push_back(at::full({6, 8}, -7.0));
  }
  const auto next = std::make_shared<std::size_t>(0);
  expect_gradient(
      {},
      [=](const at::Tensor& t) {
        at::Tensor y;
        {
          const SavedTensorHooksGuard hooks(
              [=](const at::Tensor& s) {
                at::Tensor place = pool->at((*next)++);
                place.copy_(s);
                return place;
              },
              [](const at::Tensor& place) { return place; });
          y = times_gradient(t);
        }
        return y.sin();
      },
      [](const at::Tensor& t) { return times_gradient(t).sin(); });
}

TEST_P(UnseenTest, StoreIsNotUnderAutocast) {
  const at::Tensor x = leaf({4, 4});
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const at::Tensor y = checkpoint(
      {.replay = GetParam(), .input_store = std::make_shared<BusyStore>()},
      [](const at::Tensor& t) { return t.mm(t).to(at::kFloat).exp(); }, x * 2);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  gradients(y, {x});
}

// A region that a hook runs is a region of its own, not a part of the enclosing ones.
TEST_P(UnseenTest, RegionInsideAHookSeesItself) {
  std::vector<std::string> outer;
  std::vector<std::string> of_hook;
  std::vector<at::Tensor> found;
  const auto in_hook = [&](const at::Tensor& s) {
    const at::AutoGradMode on(true);
    const at::Tensor z = s.detach().clone().requires_grad_();
    const at::Tensor y = checkpoint(
        {.policy = names_into(of_hook), .replay = GetParam()},
        [](const at::Tensor& t) { return t.sin().exp(); }, z);
    found.push_back(torch::autograd::grad({y.sum()}, {z})[0]);
    return s;
  };
  const at::Tensor x = leaf({3});
  const at::Tensor y = checkpoint(
      {.policy = names_into(outer), .replay = GetParam()},
      [&](const at::Tensor& t) {
        const SavedTensorHooksGuard hooks(in_hook, [](const at::Tensor& s) { return s; });
        return t.cos();
      },
      x);
  EXPECT_THAT(outer, ElementsAre("aten::cos"));
  EXPECT_THAT(of_hook, ElementsAre("aten::sin", "aten::exp"));
  EXPECT_TRUE(bitwise_equal(found.at(0), x.detach().sin().exp() * x.detach().cos()));
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], -x.detach().sin()));
}

TEST(UnseenScopeTest, HidesOperatorsFromTheLogOfARegion) {
  const at::Tensor x = leaf({2});
  engine_internal::OperatorLog log;
  {
    const engine_internal::OperatorLogGuard guard(log);
    const StoreGuard store(std::make_shared<BusyStore>());
    x.exp();
  }
  ASSERT_EQ(log.entries.size(), 1U);
  EXPECT_EQ(log.entries[0].op, "aten::exp");
}

TEST(UnseenScopeTest, HidesWhatIsSavedFromHooksAroundIt) {
  int outside = 0;
  int inside = 0;
  const auto counting = [](int& count) {
    return [&count](const at::Tensor& s) {
      ++count;
      return s;
    };
  };
  const auto back = [](const at::Tensor& s) { return s; };
  const at::Tensor x = leaf({2});
  const SavedTensorHooksGuard around(counting(outside), back);
  {
    const hooks_internal::UnseenScope unseen;
    EXPECT_FALSE(x.exp().requires_grad());
    const at::AutoGradMode on(true);
    EXPECT_TRUE(x.exp().requires_grad());
    const SavedTensorHooksGuard deeper(counting(inside), back);
    x.exp();
  }
  EXPECT_EQ(outside, 0);
  EXPECT_EQ(inside, 1);
  x.exp();
  EXPECT_EQ(outside, 1);
}

}  // namespace
}  // namespace reprise::unseen_test
