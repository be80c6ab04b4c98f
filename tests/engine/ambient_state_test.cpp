// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/ambient/ambient_state.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstddef>
#include <stdexcept>

#include "tests/testing/counting.h"
#include "tests/testing/op_recorder.h"

namespace reprise::engine_internal::ambient_state_test {
namespace {

using reprise::testing::LeakCheck;
using reprise::testing::OpRecorder;

// The state that the guard restores, reset by hand after each test.
class AmbientStateTest : public ::testing::Test {
 protected:
  void TearDown() override {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(true);
    at::autocast::clear_cache();
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kFloat));
    at::globalContext().setDeterministicAlgorithms(false, false);
    c10::GradMode::set_enabled(true);
  }

  // Everything other than it is by default.
  static void change_everything() {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
    at::autocast::set_autocast_cache_enabled(false);
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(at::kDouble));
    at::globalContext().setDeterministicAlgorithms(true, true);
    c10::GradMode::set_enabled(false);
  }

  static void expect_everything_changed() {
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
    EXPECT_FALSE(at::autocast::is_autocast_cache_enabled());
    EXPECT_EQ(c10::get_default_dtype_as_scalartype(), at::kDouble);
    EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
    EXPECT_TRUE(at::globalContext().deterministicAlgorithmsWarnOnly());
    EXPECT_FALSE(c10::GradMode::is_enabled());
  }

  static void expect_defaults() {
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kBFloat16);
    EXPECT_TRUE(at::autocast::is_autocast_cache_enabled());
    EXPECT_EQ(c10::get_default_dtype_as_scalartype(), at::kFloat);
    EXPECT_FALSE(at::globalContext().deterministicAlgorithms());
    EXPECT_FALSE(at::globalContext().deterministicAlgorithmsWarnOnly());
    EXPECT_TRUE(c10::GradMode::is_enabled());
  }
};

TEST_F(AmbientStateTest, GuardAppliesTheCapturedStateAndPutsBackWhatItFound) {
  const AmbientState defaults = AmbientState::capture();
  change_everything();
  {
    const AmbientStateGuard guard(defaults);
    expect_defaults();
  }
  expect_everything_changed();
}

TEST_F(AmbientStateTest, GuardAppliesWhatIsOnIntoDefaults) {
  change_everything();
  const AmbientState changed = AmbientState::capture();
  EXPECT_TRUE(changed.is_autocast_enabled());
  TearDown();
  {
    const AmbientStateGuard guard(changed);
    EXPECT_TRUE(c10::GradMode::is_enabled()) << "a replay always records gradients";
    c10::GradMode::set_enabled(false);
    expect_everything_changed();
  }
  expect_defaults();
}

TEST_F(AmbientStateTest, GuardPutsBackWhenTheBodyThrows) {
  const AmbientState defaults = AmbientState::capture();
  change_everything();
  const auto body = [&] {
    const AmbientStateGuard guard(defaults);
    at::autocast::set_autocast_enabled(at::kCPU, true);  // the body leaves this behind
    throw std::runtime_error("body");
  };
  EXPECT_THAT([&] { body(); },
              ::testing::ThrowsMessage<std::runtime_error>(::testing::HasSubstr("body")));
  expect_everything_changed();
}

TEST_F(AmbientStateTest, GuardUndoesWhatTheBodyLeftChanged) {
  const AmbientState defaults = AmbientState::capture();
  {
    const AmbientStateGuard guard(defaults);
    change_everything();
  }
  expect_defaults();
}

TEST_F(AmbientStateTest, GuardTurnsInferenceModeOffAndOnAgain) {
  const AmbientState state = AmbientState::capture();
  const at::Tensor x = torch::ones({2}, torch::requires_grad());
  const c10::InferenceMode inference;
  {
    const AmbientStateGuard guard(state);
    EXPECT_FALSE(c10::InferenceMode::is_enabled());
    EXPECT_TRUE(c10::GradMode::is_enabled());
    EXPECT_TRUE((x * 2).requires_grad());
    EXPECT_FALSE((x * 2).is_inference());
  }
  EXPECT_TRUE(c10::InferenceMode::is_enabled());
  EXPECT_FALSE(c10::GradMode::is_enabled());
  EXPECT_TRUE((x * 2).is_inference());
}

TEST_F(AmbientStateTest, GuardInInferenceModePutsAutocastBackToo) {
  change_everything();
  const AmbientState changed = AmbientState::capture();
  TearDown();
  {
    const c10::InferenceMode inference;
    {
      const AmbientStateGuard guard(changed);
      EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    }
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }
  expect_defaults();
}

TEST_F(AmbientStateTest, NothingChangesWhenTheStatesAgree) {
  const AmbientState state = AmbientState::capture();
  {
    const AmbientStateGuard guard(state);
    EXPECT_EQ(AmbientState::capture(), state);
    expect_defaults();
  }
  EXPECT_EQ(AmbientState::capture(), state);
  EXPECT_FALSE(state.is_autocast_enabled());
}

TEST_F(AmbientStateTest, DtypeIsCapturedWhileAutocastIsOff) {
  at::autocast::set_autocast_dtype(at::kCPU, at::kHalf);
  const AmbientState half = AmbientState::capture();
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const AmbientStateGuard guard(half);
  EXPECT_EQ(at::autocast::get_autocast_dtype(at::kCPU), at::kHalf);
}

TEST_F(AmbientStateTest, NestingCounterOfAutocastIsUntouched) {
  at::autocast::increment_nesting();
  {
    change_everything();
    const AmbientStateGuard guard(AmbientState::capture());
    clear_autocast_cache_if_enabled();
  }
  EXPECT_EQ(at::autocast::decrement_nesting(), 0);
}

class AutocastCacheTest : public AmbientStateTest {
 protected:
  // Number of casts that two products with the same weight need.
  std::size_t casts_of_two_products() {
    const OpRecorder recorder;
    torch::mm(input_, weight_);
    torch::mm(input_, weight_);
    return recorder.count("aten::_to_copy");
  }

  at::Tensor weight_ = torch::randn({4, 4}, torch::requires_grad());
  at::Tensor input_ = torch::randn({4, 4}, torch::kBFloat16);
};

TEST_F(AutocastCacheTest, GuardStartsColdAndKeepsTheCacheForItsBody) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const AmbientState state = AmbientState::capture();
  EXPECT_EQ(casts_of_two_products(), 1U);
  EXPECT_EQ(casts_of_two_products(), 0U);
  const AmbientStateGuard guard(state);
  EXPECT_EQ(casts_of_two_products(), 1U);
}

TEST_F(AutocastCacheTest, CastsOfTheBodyDoNotOutliveTheGuard) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  const AmbientState state = AmbientState::capture();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  LeakCheck leak_check;
  {
    const AmbientStateGuard guard(state);
    casts_of_two_products();
    EXPECT_EQ(reprise::testing::live_cpu_bytes(), leak_check.bytes_at_start() + 4 * 4 * 2);
  }
  leak_check.expect_no_leak();
}

TEST_F(AutocastCacheTest, ClearingDoesNothingWhileAutocastIsOff) {
  at::autocast::set_autocast_enabled(at::kCPU, true);
  casts_of_two_products();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  clear_autocast_cache_if_enabled();
  at::autocast::set_autocast_enabled(at::kCPU, true);
  EXPECT_EQ(casts_of_two_products(), 0U) << "the cast made before is still there";
  clear_autocast_cache_if_enabled();
  EXPECT_EQ(casts_of_two_products(), 1U);
}

TEST_F(AmbientStateTest, CurrentDeviceIsRestored) {
  if (!torch::cuda::is_available() || torch::cuda::device_count() < 2) {
    GTEST_SKIP() << "needs two CUDA devices";
  }
  const at::Tensor wakes = torch::ones({1}, torch::kCUDA);
  const AmbientState on_first = AmbientState::capture();
  const c10::DeviceGuard second(c10::Device(c10::kCUDA, 1));
  {
    const AmbientStateGuard guard(on_first);
    EXPECT_EQ(torch::empty({1}, torch::kCUDA).device().index(), 0);
  }
  EXPECT_EQ(torch::empty({1}, torch::kCUDA).device().index(), 1);
}

}  // namespace
}  // namespace reprise::engine_internal::ambient_state_test
