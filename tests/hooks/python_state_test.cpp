// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Hooks beside what Python sets on a thread: hooks on LibTorch's own stack, the flag of a compiler
// that traces, modes.
#include <ATen/ThreadLocalState.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <optional>
#include <thread>

#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "tests/hooks/counting_hooks.h"
#include "tests/testing/python_state.h"

namespace reprise::python_state_test {
namespace {

using hooks_internal::has_open_provider;
using hooks_internal::innermost_provider;
using testing::are_active;
using testing::CountingHooks;
using testing::PushedHooks;
using testing::PythonMode;
using testing::Tracing;

TEST(PythonStateTest, HooksPushedInsideAScopeAreFurtherIn) {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  {
    const PushedHooks pushed;
    EXPECT_FALSE(are_active(hooks));
    EXPECT_EQ(innermost_provider(), nullptr);
    EXPECT_TRUE(has_open_provider());
    const SavedTensorHooksGuard inner(hooks);
    EXPECT_TRUE(are_active(hooks));
  }
  EXPECT_TRUE(are_active(hooks));
}

TEST(PythonStateTest, HooksPushedOutsideAScopeAreFurtherOut) {
  const auto hooks = std::make_shared<CountingHooks>();
  std::optional<PushedHooks> pushed(std::in_place);
  const SavedTensorHooksGuard guard(hooks);
  EXPECT_TRUE(are_active(hooks));
  pushed.reset();
  EXPECT_TRUE(are_active(hooks));
}

TEST(PythonStateTest, PushedHooksTravelWithTheScopeAroundThem) {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  const PushedHooks pushed;
  const at::ThreadLocalState state;
  std::thread([&] {
    const at::ThreadLocalStateGuard travelled(state);
    EXPECT_FALSE(are_active(hooks));
  }).join();
}

TEST(PythonStateTest, NoHooksAreAppliedWhileACompilerTraces) {
  const auto hooks = std::make_shared<CountingHooks>();
  const SavedTensorHooksGuard guard(hooks);
  {
    const Tracing tracing;
    EXPECT_FALSE(are_active(hooks));
    EXPECT_EQ(hooks_internal::make_ambient_hooks(), nullptr);
  }
  EXPECT_TRUE(are_active(hooks));
}

TEST(PythonStateTest, ModeIsNotAskedForAnAlias) {
  const at::Tensor x = at::ones({3});
  const auto version = x._version();
  at::Tensor alias;
  {
    const PythonMode mode;
    EXPECT_ANY_THROW(
        x.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0),
                                                         /*allow_tensor_metadata_change=*/true));
    alias = hooks_internal::detached_alias(x);
  }
  EXPECT_EQ(alias.data_ptr(), x.data_ptr());
  x.add_(1);
  EXPECT_EQ(alias._version(), version + 1);
}

}  // namespace
}  // namespace reprise::python_state_test
