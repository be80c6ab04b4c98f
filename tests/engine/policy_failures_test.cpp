// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Policies that throw, and answers that cannot be followed, leave the region at its end.
#include <stdexcept>

#include "reprise/engine/checkpoint_scope.h"
#include "tests/engine/under_policies.h"

namespace reprise::testing::policy_failures_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class PolicyFailuresTest : public ConformanceTest {};

PolicyHolder throwing_at(const std::string& name) {
  return [name](const PolicyContext& context) {
    if (context.op() == name) {
      throw std::logic_error("no answer for " + name);
    }
    return PolicyAnswer(CheckpointPolicy::PREFER_SAVE);
  };
}

TEST_F(PolicyFailuresTest, LeaveTheRegionWithTheirType) {
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    int operators = 0;
    const auto code = [&operators](const at::Tensor& t) {
      const at::Tensor y = t.sin().cos();
      ++operators;
      return y;
    };
    const CheckpointOptions options{.policy = throwing_at("aten::sin"), .replay = replay};
    EXPECT_THAT([&] { checkpoint(options, code, leaf({4})); },
                ThrowsMessage<std::logic_error>("no answer for aten::sin"));
    EXPECT_EQ(operators, 1);  // the code has run to its end
    EXPECT_EQ(live_frames(), 0);
  }
}

// LibTorch computes the sizes of a nested tensor in a noexcept function.
TEST_F(PolicyFailuresTest, StopsInNoexceptFunctions) {
  const auto code = [](const at::Tensor& t) {
    const at::Tensor nested =
        at::_nested_tensor_from_tensor_list({t.narrow(0, 0, 2), t.narrow(0, 2, 4)});
    return (nested * 2).relu().to_padded_tensor(0);
  };
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const CheckpointOptions options{.policy = throwing_at("aten::_nested_tensor_size"),
                                    .replay = replay};
    EXPECT_THAT(
        [&] {
          checkpoint(options, code, leaf({6, 8}));
        },
        ThrowsMessage<std::logic_error>("no answer for aten::_nested_tensor_size"));
  }
}

TEST_F(PolicyFailuresTest, SurviveHandlersInTheCode) {
  const auto code = [](const at::Tensor& t) {
    try {
      return t.sin().exp();
    } catch (const std::exception&) {
      return t.cos();
    }
  };
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    const CheckpointOptions options{.policy = throwing_at("aten::exp"), .replay = replay};
    EXPECT_THAT([&] { checkpoint(options, code, leaf({4})); },
                ThrowsMessage<std::logic_error>("no answer for aten::exp"));
  }
}

TEST_F(PolicyFailuresTest, ThrowWhereTheScopeEnds) {
  const at::Tensor x = leaf({4});
  at::Tensor y;
  const auto run = [&] {
    CheckpointScope scope({.policy = throwing_at("aten::sin")});
    y = x.sin().exp();
    std::move(scope).close();
  };
  EXPECT_THAT(run, ThrowsMessage<std::logic_error>("no answer for aten::sin"));
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0],
                            torch::autograd::grad({x.sin().exp().sum()}, {x})[0]));
}

}  // namespace
}  // namespace reprise::testing::policy_failures_test
