// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Guards left in any order, and their visibility on other threads.
#include <ATen/ThreadLocalState.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>

#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "tests/hooks/counting_hooks.h"

namespace reprise::hook_order_test {
namespace {

using hooks_internal::innermost_provider;
using testing::are_active;
using testing::CountingHooks;

struct Open {
  std::shared_ptr<CountingHooks> hooks = std::make_shared<CountingHooks>();
  std::unique_ptr<SavedTensorHooksGuard> guard = std::make_unique<SavedTensorHooksGuard>(hooks);
};

// Three guards, left in the order of `order`: after each step the innermost open one applies.
void expect_innermost_open_applies(const std::array<std::size_t, 3>& order) {
  const auto state_before = c10::ThreadLocalDebugInfo::current();
  std::array<Open, 3> guards;  // made in this order
  for (const std::size_t leaving : order) {
    guards.at(leaving).guard.reset();
    const auto innermost = std::find_if(guards.rbegin(), guards.rend(),
                                        [](const Open& open) { return open.guard != nullptr; });
    for (const Open& open : guards) {
      EXPECT_EQ(are_active(open.hooks), innermost != guards.rend() && &open == &*innermost);
    }
  }
  EXPECT_EQ(innermost_provider(), nullptr);
  EXPECT_EQ(c10::ThreadLocalDebugInfo::current(), state_before);
}

TEST(SavedTensorHooksOrderTest, ThreeGuardsMayBeLeftInAnyOrder) {
  std::array<std::size_t, 3> order{0, 1, 2};
  do {
    SCOPED_TRACE(std::to_string(order[0]) + std::to_string(order[1]) + std::to_string(order[2]));
    expect_innermost_open_applies(order);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SavedTensorHooksOrderTest, GuardMadeAfterOneWasLeftEarlyIsInnermost) {
  auto first = std::make_unique<Open>();
  auto second = std::make_unique<Open>();
  first->guard.reset();
  Open third;
  EXPECT_TRUE(are_active(third.hooks));
  second->guard.reset();
  EXPECT_TRUE(are_active(third.hooks));
  third.guard.reset();
  EXPECT_EQ(innermost_provider(), nullptr);
}

TEST(SavedTensorHooksOrderTest, EndsAGuardWithAnotherLibrarysScope) {
  Open open;
  {
    const c10::DebugInfoGuard foreign(c10::DebugInfoKind::TEST_INFO,
                                      std::make_shared<c10::DebugInfoBase>());
    open.guard.reset();
    EXPECT_EQ(innermost_provider(), nullptr);
    EXPECT_FALSE(are_active(open.hooks));
  }
  EXPECT_EQ(innermost_provider(), nullptr);
  EXPECT_FALSE(are_active(open.hooks));
  {
    const Open next;  // tidies up
    EXPECT_TRUE(are_active(next.hooks));
  }
  EXPECT_EQ(innermost_provider(), nullptr);
}

TEST(SavedTensorHooksOrderTest, GuardMadeInsideUnpackAndKeptConcernsThatBackwardOnly) {
  const auto state_before = c10::ThreadLocalDebugInfo::current();
  const auto kept_hooks = std::make_shared<CountingHooks>();
  std::unique_ptr<SavedTensorHooksGuard> kept;
  at::Tensor y;
  {
    const SavedTensorHooksGuard making([](const at::Tensor& tensor) { return tensor; },
                                       [&](const at::Tensor& packed) {
                                         kept = std::make_unique<SavedTensorHooksGuard>(kept_hooks);
                                         return packed;
                                       });
    y = testing::save_one();
  }
  y.sum().backward();
  ASSERT_NE(kept, nullptr);
  EXPECT_FALSE(are_active(kept_hooks));  // the backward's thread state went with the backward

  Open later;
  kept.reset();
  EXPECT_TRUE(are_active(later.hooks));
  later.guard.reset();
  EXPECT_EQ(innermost_provider(), nullptr);
  EXPECT_EQ(c10::ThreadLocalDebugInfo::current(), state_before);
}

TEST(SavedTensorHooksThreadsTest, HooksTravelWithTheThreadLocalState) {
  const Open outer;
  const Open inner;
  const at::ThreadLocalState state;
  std::thread([&] {
    EXPECT_FALSE(are_active(inner.hooks));  // a plain thread inherits nothing
    {
      const at::ThreadLocalStateGuard travelled(state);
      EXPECT_TRUE(are_active(inner.hooks));
      EXPECT_FALSE(are_active(outer.hooks));
    }
    EXPECT_FALSE(are_active(inner.hooks));
    EXPECT_EQ(innermost_provider(), nullptr);
  }).join();
  EXPECT_TRUE(are_active(inner.hooks));
}

TEST(SavedTensorHooksThreadsTest, GuardOfTheOtherThreadIsInnermostThere) {
  const Open ours;
  const at::ThreadLocalState state;
  std::thread([&] {
    const at::ThreadLocalStateGuard travelled(state);
    {
      const Open theirs;
      EXPECT_TRUE(are_active(theirs.hooks));
    }
    EXPECT_TRUE(are_active(ours.hooks));
  }).join();
  EXPECT_TRUE(are_active(ours.hooks));
}

TEST(SavedTensorHooksThreadsTest, SeesEndedGuardsOnThreadsWithCapturedState) {
  auto outer = std::make_unique<Open>();
  auto inner = std::make_unique<Open>();
  const at::ThreadLocalState state;
  inner->guard.reset();
  std::thread([&] {
    const at::ThreadLocalStateGuard travelled(state);
    EXPECT_FALSE(are_active(inner->hooks));
    EXPECT_TRUE(are_active(outer->hooks));
  }).join();
  outer->guard.reset();
  std::thread([&] {
    const at::ThreadLocalStateGuard travelled(state);
    EXPECT_FALSE(are_active(outer->hooks));
    EXPECT_EQ(innermost_provider(), nullptr);
  }).join();
}

TEST(SavedTensorHooksThreadsTest, EndsAGuardThatAnotherThreadEnded) {
  Open outer;
  Open inner;
  std::thread([&] { inner.guard.reset(); }).join();
  EXPECT_FALSE(are_active(inner.hooks));
  EXPECT_TRUE(are_active(outer.hooks));
  outer.guard.reset();
  EXPECT_EQ(innermost_provider(), nullptr);
}

TEST(SavedTensorHooksThreadsTest, HooksReachABackwardInsideABackward) {
  // Results of the outer backward with create_graph are saved through the caller's hooks.
  const at::Tensor x = at::ones({3}).requires_grad_();
  const at::Tensor y = x.exp().sin();
  const Open open;
  torch::autograd::grad({y.sum()}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
  EXPECT_GT(open.hooks->packs, 0);
}

}  // namespace
}  // namespace reprise::hook_order_test
