// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Scopes whose code gives tensors other memory: out= arguments that are resized, resize_(), set_().
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/tape/tape.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::scope_resized_test {
namespace {

using engine_internal::Geometry;

class ScopeResizedTest : public ConformanceTest {
 protected:
  using Code = std::function<at::Tensor(const at::Tensor& x)>;

  // Runs `code` in a scope, which must give the output and the gradient of a run without, in two
  // backwards.
  void expect_plain_bits(const Code& code, CheckpointOptions options = {}) {
    const at::Tensor x = leaf({4, 8});
    const at::Tensor expected = code(x);
    const Tensors gradient = torch::autograd::grad({expected.sum()}, {x});
    at::Tensor y;
    {
      const CheckpointScope scope(std::move(options));
      y = code(x);
    }
    expect_same_bits({y.detach()}, {expected.detach()});
    for (const bool retain : {true, false}) {
      expect_same_bits(torch::autograd::grad({watch(y.sum())}, {x}, {}, retain), gradient);
    }
  }

  // Each of the first operators kept or not, with each strength, where it is and in stores.
  void expect_plain_bits_under_policies(const Code& code, int operators) {
    const std::vector<std::shared_ptr<ActivationStore>> places = {nullptr, stores::device(),
                                                                  stores::slab({.min_bytes = 1})};
    for (const auto& store : places) {
      for (const auto yes : {CheckpointPolicy::PREFER_SAVE, CheckpointPolicy::MUST_SAVE}) {
        for (int kept = 0; kept < 1 << operators; ++kept) {
          SCOPED_TRACE(c10::str("kept ", kept, " ", to_string(yes), store ? " in a store" : ""));
          const auto policy = [=](const PolicyContext& context) {
            const bool is_kept = (kept >> context.ordinal() & 1) != 0;
            return PolicyAnswer(is_kept ? yes : CheckpointPolicy::PREFER_RECOMPUTE, store);
          };
          expect_plain_bits(code, {.policy = policy});
        }
      }
    }
  }
};

TEST_F(ScopeResizedTest, ThrowsForGeometryThatLeavesTheStorage) {
  const at::Tensor small = at::zeros({4});
  const at::Tensor large = at::zeros({4, 8});
  EXPECT_THAT([&] { Geometry(large).look_at(small, 0); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("in a storage of 16")));
  EXPECT_THAT([&] { Geometry(small).look_at(small, 1); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("in a storage of 16")));
  EXPECT_THAT([&] { Geometry(small).look_at(small, -1); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("in a storage of 16")));
  EXPECT_THAT([&] { Geometry(small.to(at::kDouble)).look_at(small, 0); },
              ::testing::ThrowsMessage<c10::Error>(::testing::HasSubstr("in a storage of 16")));
  EXPECT_TRUE(Geometry(large[3].slice(0, 4)).look_at(large[3], 0).is_set_to(large[3].slice(0, 4)));
  EXPECT_EQ(Geometry(large.narrow(0, 4, 0)).look_at(small, 0).numel(), 0);
}

TEST_F(ScopeResizedTest, KeepsOutArgumentsAsTheyBecome) {
  const auto code = [](const at::Tensor& x) {
    at::Tensor t = at::empty({0});
    {
      const at::NoGradGuard no_grad;
      at::mul_out(t, x, x);
      at::add_out(t, t, x);
    }
    return x * t;
  };
  expect_plain_bits(code, {.policy = policies::save_operators({"aten::mul.out"})});
  expect_plain_bits_under_policies(code, 3);
}

TEST_F(ScopeResizedTest, OutArgumentThatIsAViewGrowsItsStorage) {
  expect_plain_bits_under_policies(
      [](const at::Tensor& x) {
        const at::Tensor whole = at::empty({2});
        at::Tensor t = whole.narrow(0, 2, 0);
        {
          const at::NoGradGuard no_grad;
          whole.fill_(3);
          at::sin_out(t, x);
        }
        return x * t * whole[1];
      },
      3);
}

TEST_F(ScopeResizedTest, ResizedMemoryIsKept) {
  expect_plain_bits_under_policies(
      [](const at::Tensor& x) {
        const at::Tensor t = at::empty({2});
        t.resize_({4, 8}).copy_(x.detach());
        return x * t;
      },
      3);
}

TEST_F(ScopeResizedTest, AllowsValueThatWasReadToBeResizedAndOverwritten) {
  expect_plain_bits_under_policies(
      [](const at::Tensor& x) {
        const at::Tensor t = x.detach().exp();
        const at::Tensor y = (x + t).sin();
        t.resize_({8, 8}).fill_(2);
        return y * t.narrow(0, 0, 4);
      },
      3);
}

TEST_F(ScopeResizedTest, AllowsTensorFromOutsideToBeResizedAfterItWasRead) {
  const Tensors scales = {at::full({4, 8}, 2.0), at::full({4, 8}, 2.0)};
  std::size_t runs = 0;
  expect_plain_bits([&](const at::Tensor& x) {
    const at::Tensor& scale = scales.at(runs++);
    const at::Tensor y = (x * 2 + scale).sin();
    scale.resize_({16, 8}).fill_(3);
    return y * scale.narrow(0, 4, 4);
  });
}

TEST_F(ScopeResizedTest, AllowsTensorToBeSetToOtherMemory) {
  expect_plain_bits_under_policies(
      [](const at::Tensor& x) {
        const at::NoGradGuard no_grad;
        const at::Tensor t = at::empty({0});
        t.set_(x.detach().clone()).mul_(2);
        const at::AutoGradMode with_grad(true);
        return x * t;
      },
      3);
}

TEST_F(ScopeResizedTest, AllowsSavingResizedTensors) {
  expect_plain_bits([](const at::Tensor& x) {
    at::Tensor t = at::empty({0});
    const at::NoGradGuard no_grad;
    at::mul_out(t, x, x);
    must_save(t);
    at::Tensor y;
    {
      const at::AutoGradMode with_grad(true);
      y = (x + t).sin() * x;
    }
    t.add_(1);
    const at::AutoGradMode with_grad(true);
    return y * t;
  });
}

}  // namespace
}  // namespace reprise::testing::scope_resized_test
