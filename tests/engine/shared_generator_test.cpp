// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Several threads that draw from the default generator while a region runs or is recomputed.
#include <torch/library.h>

#include <functional>
#include <string>
#include <thread>

#include "reprise/engine/recomputing.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::shared_generator_test {
namespace {

using ::testing::AllOf;
using testing::bitwise_equal;
using ::testing::HasSubstr;
using testing::leaf;
using ::testing::ThrowsMessage;

// An operator that draws random numbers, in front of which `before_drawing` runs.
std::function<void()>& before_drawing() {
  static std::function<void()> code;
  return code;
}

at::Tensor noise_like(const at::Tensor& x) {
  if (before_drawing()) {
    before_drawing()();
  }
  return at::empty_like(x).uniform_();
}

TORCH_LIBRARY(reprise_shared_generator, library) {
  library.def("noise_like(Tensor x) -> Tensor", {at::Tag::nondeterministic_seeded});
}
TORCH_LIBRARY_IMPL(reprise_shared_generator, CPU, library) {
  library.impl("noise_like", noise_like);
}

at::Tensor call_noise_like(const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow("reprise_shared_generator::noise_like", "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

class SharedGeneratorTest : public testing::ConformanceTest {
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

TEST_F(SharedGeneratorTest, AcceptsGeneratorsOfOneThread) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    expect_gradient_of_forward({.replay = replay}, [] {});
    expect_gradient_of_forward({.replay = replay}, [] { at::manual_seed(3); });
  }
}

TEST_F(SharedGeneratorTest, DrawsOfAnotherThreadInForwardOrInTheReplayAreAnError) {
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

// Where not even the state that the operator starts from is the one that was captured.
TEST_F(SharedGeneratorTest, DrawsOfAnotherThreadWithinAnOperatorAreAnError) {
  const auto code = [](const at::Tensor& t) { return (call_noise_like(t.detach()) * t).sin() * t; };
  const std::vector<CheckpointOptions> forms = {
      {.name = "block"},
      {.name = "block", .replay = ReplayMode::kTape},
      {.name = "block", .policy = policies::save_nothing()},
      {.name = "block", .policy = policies::save_nothing(), .replay = ReplayMode::kTape}};
  for (const CheckpointOptions& options : forms) {
    for (const int draws_in : {0, 1, 2}) {  // neither, forward, replay
      int runs = 0;
      before_drawing() = [&runs, draws_in] {
        if (++runs == draws_in) {
          draw_on_another_thread();
        }
      };
      const at::Tensor x = leaf({4, 8});
      const at::Tensor y = checkpoint(options, code, x);
      if (draws_in == 0) {
        EXPECT_NO_THROW(y.sum().backward());
      } else {
        EXPECT_THAT([&] { y.sum().backward(); },
                    ThrowsMessage<DeterminismError>(
                        AllOf(HasSubstr("region 'block'"), HasSubstr("noise_like"),
                              HasSubstr("generator of cpu"), HasSubstr("another thread"))));
      }
      EXPECT_EQ(runs, 2);
    }
  }
  before_drawing() = nullptr;
}

TEST_F(SharedGeneratorTest, NumbersThatNoSavedTensorDependsOnMayDiffer) {
  const at::Tensor x = leaf({4, 8});
  const auto code = [](const at::Tensor& t) {
    draw_on_another_thread();
    at::rand({4});
    return (t.sin() * t).exp();
  };
  EXPECT_TRUE(bitwise_equal(gradients(checkpoint(code, x), {x})[0], gradients(code(x), {x})[0]));
}

TEST_F(SharedGeneratorTest, TapeDrawsWhatEachOperatorDrew) {
  expect_gradient_of_forward({.replay = ReplayMode::kTape}, draw_on_another_thread);
}

}  // namespace
}  // namespace reprise::shared_generator_test
