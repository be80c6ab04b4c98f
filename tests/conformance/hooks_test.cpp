// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 129 to 136, 140 and 148: saved-tensor hooks set by a guard.
#include "reprise/hooks/saved_tensor_hooks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>
#include <thread>

#include "tests/testing/bitwise.h"

namespace reprise::hooks_test {
namespace {

using testing::bitwise_equal;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

at::Tensor identity(const at::Tensor& tensor) { return tensor; }

auto times(double factor) {
  return [factor](const at::Tensor& tensor) { return tensor * factor; };
}

at::Tensor leaf() { return at::tensor({1.0, 2.0, 3.0, 4.0, 5.0}, at::kDouble).requires_grad_(); }

// The gradient of a * a under hooks: 2a if both saved tensors come back as they were.
template <class Pack, class Unpack>
at::Tensor gradient_of_square(Pack pack, Unpack unpack) {
  const at::Tensor a = leaf();
  at::Tensor y;
  {
    const SavedTensorHooksGuard hooks(pack, unpack);
    y = a * a;
  }
  y.sum().backward();
  return a.grad();
}

struct Counts {
  int packs = 0;
  int unpacks = 0;
};

auto counting_pack(Counts& counts) {
  return [&counts](const at::Tensor& tensor) {
    ++counts.packs;
    return tensor;
  };
}

auto counting_unpack(Counts& counts) {
  return [&counts](const at::Tensor& tensor) {
    ++counts.unpacks;
    return tensor;
  };
}

TEST(SavedTensorHooksTest, C129_PackIsCalledOncePerSave) {
  Counts counts;
  const auto gradient = gradient_of_square(counting_pack(counts), counting_unpack(counts));
  EXPECT_EQ(counts.packs, 2);
  EXPECT_EQ(counts.unpacks, 2);
  EXPECT_TRUE(bitwise_equal(gradient, 2 * leaf().detach()));
}

TEST(SavedTensorHooksTest, C129_PairsOfHooksGiveTheExpectedGradients) {
  const auto a = leaf().detach();
  EXPECT_TRUE(bitwise_equal(gradient_of_square(identity, identity), 2 * a));
  EXPECT_TRUE(bitwise_equal(gradient_of_square(times(2), times(0.5)), 2 * a));
  EXPECT_TRUE(bitwise_equal(gradient_of_square(times(2), identity), 4 * a));
  EXPECT_TRUE(bitwise_equal(gradient_of_square(identity, times(0.5)), a));
}

TEST(SavedTensorHooksTest, C129_HooksAreGoneAfterTheirScope) {
  Counts counts;
  gradient_of_square(counting_pack(counts), counting_unpack(counts));
  const at::Tensor a = leaf();
  (a * a).sum().backward();
  EXPECT_EQ(counts.packs, 2);
  EXPECT_EQ(counts.unpacks, 2);
}

TEST(SavedTensorHooksTest, C130_SavedResultGoesThroughTheHooks) {
  Counts counts;
  const at::Tensor a = leaf();
  at::Tensor y;
  {
    const SavedTensorHooksGuard hooks(counting_pack(counts), times(3));
    y = a.exp();
  }
  y.sum().backward();
  EXPECT_EQ(counts.packs, 1);
  EXPECT_TRUE(bitwise_equal(a.grad(), a.detach().exp() * 3));
}

TEST(SavedTensorHooksTest, C131_AppliesTheInnermostPairOnly) {
  const at::Tensor a = leaf();
  const at::Tensor b = leaf();
  at::Tensor inside;
  at::Tensor outside;
  {
    const SavedTensorHooksGuard outer(times(3), times(3));
    {
      const SavedTensorHooksGuard inner(times(5), times(5));
      inside = a * a;
    }
    outside = b * b;
  }
  (inside.sum() + outside.sum()).backward();
  EXPECT_TRUE(bitwise_equal(a.grad(), 2 * 25 * a.detach()));
  EXPECT_TRUE(bitwise_equal(b.grad(), 2 * 9 * b.detach()));
}

TEST(SavedTensorHooksTest, C132_DisabledHooksCannotBeSet) {
  {
    const DisableSavedTensorHooksGuard disabled("not here");
    EXPECT_THAT([] { const SavedTensorHooksGuard guard(identity, identity); },
                ThrowsMessage<c10::Error>(HasSubstr("not here")));
  }
  EXPECT_NO_THROW(const SavedTensorHooksGuard guard(identity, identity));
}

TEST(SavedTensorHooksTest, C132_ActiveHooksCannotBeDisabled) {
  {
    const SavedTensorHooksGuard hooks(identity, identity);
    EXPECT_THAT([] { const DisableSavedTensorHooksGuard guard("too late"); },
                ThrowsMessage<c10::Error>(HasSubstr("too late")));
    EXPECT_NO_THROW(const SavedTensorHooksGuard guard(identity, identity));
  }
  EXPECT_NO_THROW(const DisableSavedTensorHooksGuard guard("now it can"));
  EXPECT_NO_THROW(const SavedTensorHooksGuard guard(identity, identity));
}

TEST(SavedTensorHooksTest, C133_InnerMessageIsUsedAndEachScopeRestoresWhatItFound) {
  const auto set_hooks = [] { const SavedTensorHooksGuard guard(identity, identity); };
  {
    const DisableSavedTensorHooksGuard outer("outer message");
    {
      const DisableSavedTensorHooksGuard inner("inner message");
      EXPECT_THAT(set_hooks, ThrowsMessage<c10::Error>(HasSubstr("inner message")));
    }
    EXPECT_THAT(set_hooks, ThrowsMessage<c10::Error>(HasSubstr("outer message")));
  }
  EXPECT_NO_THROW(set_hooks());
}

struct CustomError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

TEST(SavedTensorHooksTest, C134_ThrowsErrorsOfPackAtTheOperator) {
  const at::Tensor a = leaf();
  const SavedTensorHooksGuard hooks(
      [](const at::Tensor&) -> at::Tensor { throw CustomError("from pack"); }, identity);
  EXPECT_THAT([&] { a* a; }, ThrowsMessage<CustomError>("from pack"));
}

TEST(SavedTensorHooksTest, C134_ThrowsErrorsOfUnpackInBackward) {
  const at::Tensor a = leaf();
  const SavedTensorHooksGuard hooks(
      identity, [](const at::Tensor&) -> at::Tensor { throw CustomError("from unpack"); });
  const at::Tensor y = (a * a).sum();
  EXPECT_THAT([&] { y.backward(); }, ThrowsMessage<CustomError>("from unpack"));
}

// Saves a tensor that it makes itself, a leaf.
struct SavesAnIntermediate : torch::autograd::Function<SavesAnIntermediate> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::Tensor intermediate = x.exp();
    context->save_for_backward({intermediate.clone().detach_().requires_grad_()});
    return x.exp();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0]};
  }
};

TEST(SavedTensorHooksTest, C135_AllowsCustomFunctionToSaveAFreshLeaf) {
  Counts counts;
  const at::Tensor a = leaf();
  const SavedTensorHooksGuard hooks(counting_pack(counts), counting_unpack(counts));
  SavesAnIntermediate::apply(a).sum().backward();
  EXPECT_EQ(counts.packs, 1);
  EXPECT_EQ(counts.unpacks, 1);
  EXPECT_TRUE(bitwise_equal(a.grad(), a.detach().exp()));
}

TEST(SavedTensorHooksTest, C136_HooksRunOnlyForWhatIsSavedAndOnlyWhenAskedFor) {
  Counts counts;
  const SavedTensorHooksGuard hooks(counting_pack(counts), counting_unpack(counts));
  const at::Tensor x = leaf();
  const at::Tensor y = leaf().detach();
  const at::Tensor z = (x * y).sum();
  EXPECT_EQ(counts.packs, 1);
  EXPECT_EQ(counts.unpacks, 0);
  z.backward();
  EXPECT_EQ(counts.packs, 1);
  EXPECT_EQ(counts.unpacks, 1);
}

TEST(SavedTensorHooksTest, C140_NumbersThatLibTorchWrapsIntoTensorsTriggerNoHooks) {
  Counts counts;
  const at::Tensor a = leaf();
  const SavedTensorHooksGuard hooks(counting_pack(counts), counting_unpack(counts));
  (a * 3).sum().backward();
  EXPECT_EQ(counts.packs, 0);
  EXPECT_EQ(counts.unpacks, 0);
  EXPECT_TRUE(bitwise_equal(a.grad(), at::full_like(a.detach(), 3)));
}

TEST(SavedTensorHooksTest, C148_ThreadsStartedInsideDoNotInheritHooks) {
  Counts counts;
  const SavedTensorHooksGuard hooks(counting_pack(counts), counting_unpack(counts));
  const auto square = [] {
    const at::Tensor a = leaf();
    (a * a).sum().backward();
  };
  std::thread(square).join();
  EXPECT_EQ(counts.packs, 0);
  EXPECT_EQ(counts.unpacks, 0);
  square();
  EXPECT_EQ(counts.packs, 2);
  EXPECT_EQ(counts.unpacks, 2);
}

}  // namespace
}  // namespace reprise::hooks_test
