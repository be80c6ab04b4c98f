// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Several threads that draw from the default generator while a region runs or is recomputed.
#include <string>
#include <thread>

#include "reprise/engine/recomputing.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::shared_generator_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::leaf;
using ::testing::ThrowsMessage;

class SharedGenerator : public testing::ConformanceTest {
 protected:
  static void draw_on_another_thread() {
    std::thread([] { at::rand({3}); }).join();
  }

  // Of a region with two dropouts, between which `between` runs.
  template <class Between>
  void expect_gradient_of_forward(CheckpointOptions options, Between between) {
    const at::Tensor x = at::ones({64}).requires_grad_();
    options.name = "block";
    const at::Tensor y = checkpoint(
        options,
        [&](const at::Tensor& t) {
          const at::Tensor h = at::dropout(t, 0.5, true);
          between();
          return (at::dropout(h, 0.5, true) * t).sin() * t;
        },
        x);
    const at::Tensor kept = (y != 0).detach();
    const at::Tensor gradient = gradients(y, {x})[0];
    EXPECT_TRUE(bitwise_equal(gradient != 0, kept));
  }
};

TEST_F(SharedGenerator, ThatNobodyElseDrawsFrom) {
  for (const Replay replay : {Replay::kFunction, Replay::kTape}) {
    expect_gradient_of_forward({.replay = replay}, [] {});
    expect_gradient_of_forward({.replay = replay}, [] { at::manual_seed(3); });
  }
}

TEST_F(SharedGenerator, DrawsOfAnotherThreadInForwardOrInTheReplayAreAnError) {
  for (const bool in_forward : {true, false}) {
    const auto between = [&] {
      if (is_recomputing() != in_forward) {
        draw_on_another_thread();
      }
    };
    EXPECT_THAT([&] { expect_gradient_of_forward({}, between); },
                ThrowsMessage<DeterminismError>(
                    AllOf(HasSubstr("region 'block'"), HasSubstr("generator of cpu"),
                          HasSubstr("aten::"), HasSubstr("another thread"))));
  }
}

TEST_F(SharedGenerator, NumbersThatNoSavedTensorDependsOnMayDiffer) {
  const at::Tensor x = leaf({4, 8});
  const auto code = [](const at::Tensor& t) {
    draw_on_another_thread();
    at::rand({4});
    return (t.sin() * t).exp();
  };
  EXPECT_TRUE(bitwise_equal(gradients(checkpoint(code, x), {x})[0], gradients(code(x), {x})[0]));
}

TEST_F(SharedGenerator, ATapeDrawsWhatEachOperatorDrew) {
  expect_gradient_of_forward({.replay = Replay::kTape}, draw_on_another_thread);
}

}  // namespace
}  // namespace reprise::shared_generator_test
