// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/saved_tensor_hooks.h"

#include <ATen/SavedTensorHooks.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/hooks/counting_hooks.h"
#include "tests/testing/bitwise.h"
#include "tests/testing/counting.h"
#include "tests/testing/node_counter.h"

namespace reprise::saved_tensor_hooks_test {
namespace {

using testing::are_active;
using testing::bitwise_equal;
using testing::CountingHooks;
using ::testing::HasSubstr;
using testing::live_cpu_bytes;
using testing::NodeCounter;
using ::testing::ThrowsMessage;

at::Tensor identity(const at::Tensor& tensor) { return tensor; }

at::Tensor leaf() { return at::arange(1.0, 6.0, at::kDouble).requires_grad_(); }

TEST(SavedTensorHooksGuardTest, PackedValuesMayBeMoveOnly) {
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const SavedTensorHooksGuard hooks(
        [](const at::Tensor& tensor) { return std::make_unique<at::Tensor>(tensor.clone()); },
        [](const std::unique_ptr<at::Tensor>& packed) { return *packed; });
    y = (x * x).exp();
  }
  y.sum().backward();
  const at::Tensor same = leaf();
  (same * same).exp().sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), same.grad()));
}

TEST(SavedTensorHooksGuardTest, CallablesMayBeMoveOnly) {
  auto factor = std::make_unique<double>(2.0);
  const at::Tensor x = leaf();
  const SavedTensorHooksGuard hooks(
      [factor = std::move(factor)](const at::Tensor& tensor) { return tensor * *factor; },
      identity);
  x.exp().sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach().exp() * 2));
}

// Counts calls of pack and unpack in one object.
struct Doubling {
  at::Tensor pack(const at::Tensor& tensor) { return tensor * 2; }
  at::Tensor unpack(const at::Tensor& packed) { return packed / 2; }
};

TEST(SavedTensorHooksGuardTest, TakesAnObjectWithPackAndUnpack) {
  const at::Tensor x = leaf();
  const SavedTensorHooksGuard hooks(Doubling{});
  x.exp().sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach().exp()));
}

TEST(SavedTensorHooksGuardTest, TakesASharedObjectWhichLivesAsLongAsAnythingIsPacked) {
  auto hooks = std::make_shared<CountingHooks>();
  const std::weak_ptr<CountingHooks> watched = hooks;
  const at::Tensor x = leaf();
  at::Tensor y;
  {
    const SavedTensorHooksGuard guard(hooks);
    y = x.exp();
    EXPECT_EQ(hooks->packs, 1);
  }
  hooks.reset();
  EXPECT_FALSE(watched.expired());
  y.sum().backward();
  EXPECT_TRUE(watched.expired());
}

TEST(SavedTensorHooksGuardTest, UnpackIsCalledForEachBackwardThatRetainsTheGraph) {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  const at::Tensor loss = leaf().exp().sum();
  loss.backward({}, /*retain_graph=*/true);
  loss.backward({}, /*retain_graph=*/true);
  loss.backward();
  EXPECT_EQ(hooks->packs, 1);
  EXPECT_EQ(hooks->unpacks, 3);
}

TEST(SavedTensorHooksGuardTest, PackGetsADetachedAliasWithGradModeOff) {
  const at::Tensor x = leaf();
  at::Tensor y;
  std::vector<at::Tensor> packed;
  const SavedTensorHooksGuard hooks(
      [&packed](const at::Tensor& tensor) {
        EXPECT_FALSE(at::GradMode::is_enabled());
        packed.push_back(tensor);
        return tensor;
      },
      identity);
  y = x.exp();
  ASSERT_EQ(packed.size(), 1U);
  EXPECT_FALSE(packed[0].is_same(y));
  EXPECT_FALSE(packed[0].requires_grad());
  EXPECT_EQ(packed[0].grad_fn().get(), nullptr);
  EXPECT_EQ(packed[0].const_data_ptr(), y.const_data_ptr());
}

TEST(SavedTensorHooksGuardTest, KeptResultMakesNoCycle) {
  NodeCounter nodes;
  const std::int64_t before = live_cpu_bytes();
  {
    const at::Tensor x = leaf();
    const SavedTensorHooksGuard hooks(identity, identity);
    const at::Tensor y = x.exp().exp();
    nodes.watch(y);
    EXPECT_EQ(nodes.alive(), 3U);
  }
  EXPECT_EQ(nodes.alive(), 0U);
  EXPECT_EQ(live_cpu_bytes(), before);
}

TEST(SavedTensorHooksGuardTest, UndefinedTensorsAreNotPacked) {
  struct SavesNothing : torch::autograd::Function<SavesNothing> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
      context->save_for_backward({at::Tensor(), x});
      return x.clone();
    }
    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext* context,
        const torch::autograd::variable_list& gradients) {
      EXPECT_FALSE(context->get_saved_variables()[0].defined());
      return {gradients[0] * context->get_saved_variables()[1]};
    }
  };
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  const at::Tensor x = leaf();
  SavesNothing::apply(x).sum().backward();
  EXPECT_EQ(hooks->packs, 1);
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach()));
}

TEST(SavedTensorHooksGuardTest, ForeignExceptionOfUnpackIsTranslated) {
  const at::Tensor x = leaf();
  const SavedTensorHooksGuard hooks(identity, [](const at::Tensor&) -> at::Tensor { throw 42; });
  const at::Tensor loss = x.exp().sum();
  EXPECT_THAT([&] { loss.backward(); },
              ThrowsMessage<SavedTensorHookError>(HasSubstr("no std::exception")));
}

TEST(SavedTensorHooksGuardTest, GuardThatCouldNotBeMadeLeavesTheOneOutside) {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  at::SavedTensorDefaultHooks::disable("by another library", /*fail_if_non_empty=*/false);
  EXPECT_THAT([] { const SavedTensorHooksGuard guard(identity, identity); },
              ThrowsMessage<c10::Error>(HasSubstr("by another library")));
  EXPECT_FALSE(are_active(hooks));  // another library's gate is honoured while a guard is open
  at::SavedTensorDefaultHooks::enable();
  EXPECT_TRUE(are_active(hooks));
}

TEST(RegisterSavedTensorHooksTest, TensorThatHasHooksTakesNoOthers) {
  const at::Tensor x = leaf();
  const SavedTensorHooksGuard hooks(identity, identity);
  torch::autograd::SavedVariable saved(x, /*is_output=*/false);
  EXPECT_THAT([&] { register_saved_tensor_hooks(saved, identity, identity); },
              ThrowsMessage<c10::Error>(HasSubstr("hooks have already been")));
}

TEST(DisableSavedTensorHooksGuardTest, RestoresWhatAnotherLibraryHadDisabled) {
  at::SavedTensorDefaultHooks::disable("outside");
  {
    const DisableSavedTensorHooksGuard inner("inside");
    EXPECT_EQ(at::SavedTensorDefaultHooks::get_disabled_error_message(), "inside");
  }
  EXPECT_EQ(at::SavedTensorDefaultHooks::get_disabled_error_message(), "outside");
  at::SavedTensorDefaultHooks::enable();
  EXPECT_EQ(at::SavedTensorDefaultHooks::get_disabled_error_message(), std::nullopt);
}

TEST(DisableSavedTensorHooksGuardTest, TensorsAreSavedAsEver) {
  const DisableSavedTensorHooksGuard disabled("no hooks");
  const at::Tensor x = leaf();
  x.exp().sum().backward();
  EXPECT_TRUE(bitwise_equal(x.grad(), x.detach().exp()));
}

TEST(DisableSavedTensorHooksGuardTest, RefusedGuardChangesNothing) {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  EXPECT_THAT([] { const DisableSavedTensorHooksGuard guard("refused"); },
              ThrowsMessage<c10::Error>(HasSubstr("refused")));
  EXPECT_TRUE(at::SavedTensorDefaultHooks::is_enabled());
  EXPECT_TRUE(are_active(hooks));
}

}  // namespace
}  // namespace reprise::saved_tensor_hooks_test
