// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Several threads that draw from the default generator while a region runs or is recomputed.
#include <string>
#include <thread>

#include "reprise/engine/recomputing.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/warning_log.h"

namespace reprise::shared_generator_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::leaf;

class SharedGenerator : public testing::ConformanceTest {
 protected:
  static void draw_on_another_thread() {
    std::thread([] { at::rand({3}); }).join();
  }

  // Warnings of a region with two dropouts, between which `between` runs, and whether its gradient
  // is that of its forward.
  template <class Between>
  std::vector<std::string> warnings_of(CheckpointOptions options, Between between,
                                       bool expects_right) {
    const testing::WarningLog log;
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
    EXPECT_EQ(bitwise_equal(gradient != 0, kept), expects_right);
    return log.messages();
  }
};

TEST_F(SharedGenerator, AloneIsQuiet) {
  for (const Replay replay : {Replay::kFunction, Replay::kTape}) {
    EXPECT_THAT(warnings_of(
                    {.replay = replay}, [] {}, true),
                IsEmpty());
    EXPECT_THAT(warnings_of(
                    {.replay = replay}, [] { at::manual_seed(3); }, true),
                IsEmpty());
  }
}

TEST_F(SharedGenerator, DrawsOfAnotherThreadInForwardOrInTheReplayAreWarnedOf) {
  for (const bool in_forward : {true, false}) {
    const auto between = [&] {
      if (is_recomputing() != in_forward) {
        draw_on_another_thread();
      }
    };
    EXPECT_THAT(warnings_of({}, between, false),
                ElementsAre(AllOf(HasSubstr("region 'block'"), HasSubstr("generator of cpu"),
                                  HasSubstr("aten::"), HasSubstr("Another thread"))));
  }
}

TEST_F(SharedGenerator, ATapeDrawsWhatEachOperatorDrew) {
  EXPECT_THAT(warnings_of({.replay = Replay::kTape}, draw_on_another_thread, true), IsEmpty());
}

}  // namespace
}  // namespace reprise::shared_generator_test
