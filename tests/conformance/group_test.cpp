// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Conformance rows 43 to 46: GraphExecGroup.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::group_test {
namespace {

using ::testing::HasSubstr;
using torch::autograd::grad;

class CheckpointGroupTest : public ConformanceTest {
 protected:
  // A region of y = sin(x), z = sin(y), over a leaf x.
  void run_forward() {
    x_ = leaf({8});
    std::tie(y_, z_) = checkpoint(
        [this](const at::Tensor& t) {
          ++runs_;
          const at::Tensor y = t.exp().sin();
          return std::make_pair(y, y.exp().sin());
        },
        x_);
    watch(z_);
  }

  at::Tensor from_z_to_y() {
    return grad({z_}, {y_}, {at::ones_like(z_)}, /*retain_graph=*/true)[0];
  }
  at::Tensor from_y_to_x(const at::Tensor& of_y) {
    return grad({y_}, {x_}, {of_y}, /*retain_graph=*/true)[0];
  }

  void expect_plain_gradient(const at::Tensor& of_x) {
    const at::Tensor y = x_.exp().sin();
    const at::Tensor z = y.exp().sin();
    EXPECT_TRUE(bitwise_equal(of_x, gradients(z, {x_})[0]));
  }

  void TearDown() override {
    x_ = y_ = z_ = at::Tensor();
    ConformanceTest::TearDown();
  }

  at::Tensor x_, y_, z_;
  int runs_ = 0;
};

TEST_F(CheckpointGroupTest, C043_BackwardsOfAGroupShareOneReplay) {
  GraphExecGroup group;
  const GraphExecGroupGuard entered(group);
  run_forward();
  expect_plain_gradient(from_y_to_x(from_z_to_y()));
  EXPECT_EQ(runs_, 2);
}

TEST_F(CheckpointGroupTest, C043b_AllowsForwardToBeOutsideOfTheGroup) {
  run_forward();
  GraphExecGroup group;
  at::Tensor of_y;
  {
    const GraphExecGroupGuard entered(group);
    of_y = from_z_to_y();
  }
  {
    const GraphExecGroupGuard entered(group);
    expect_plain_gradient(from_y_to_x(of_y));
  }
  EXPECT_EQ(runs_, 2);
}

TEST_F(CheckpointGroupTest, C043c_AllowsGroupToBeEnteredOnAnotherThread) {
  GraphExecGroup group;
  run_forward();
  at::Tensor of_y;
  {
    const GraphExecGroupGuard entered(group);
    of_y = from_z_to_y();
  }
  at::Tensor of_x;
  std::thread([&] {
    EXPECT_FALSE(GraphExecGroupGuard::is_active());
    const GraphExecGroupGuard entered(group);
    EXPECT_TRUE(GraphExecGroupGuard::is_active());
    of_x = from_y_to_x(of_y);
  }).join();
  expect_plain_gradient(of_x);
  EXPECT_EQ(runs_, 2);
}

TEST_F(CheckpointGroupTest, C043d_BackwardRepeatedInAGroupIsRightAgain) {
  GraphExecGroup group;
  run_forward();
  const GraphExecGroupGuard entered(group);
  for (int i = 0; i < 3; ++i) {
    expect_plain_gradient(from_y_to_x(from_z_to_y()));
  }
}

// With kept results that a replay could do without, as they may be changed in place.
TEST_F(CheckpointGroupTest, C043m_BackwardRepeatedInAGroupIsRightUnderAPolicy) {
  const at::Tensor x = leaf({8});
  const auto code = [](const at::Tensor& t) {
    const at::Tensor k = t.sin();
    return k.cos() * k + k.tanh().exp();
  };
  const at::Tensor expected = gradients(code(x), {x})[0];
  for (const ReplayMode replay : {ReplayMode::kFunction, ReplayMode::kTape}) {
    for (const bool early_stop : {false, true}) {
      for (int kept = 0; kept < 32; ++kept) {
        SCOPED_TRACE(kept);
        GraphExecGroup group;
        const GraphExecGroupGuard entered(group);
        const auto policy = [kept](const PolicyContext& context) {
          return (kept >> context.ordinal() & 1) != 0 ? CheckpointPolicy::PREFER_SAVE
                                                      : CheckpointPolicy::PREFER_RECOMPUTE;
        };
        const CheckpointOptions options{.policy = policy,
                                        .replay = replay,
                                        .early_stop = early_stop,
                                        .allow_cache_entry_mutation = true};
        const at::Tensor y = checkpoint(options, code, x);
        for (const bool retain : {true, false}) {
          EXPECT_TRUE(bitwise_equal(grad({watch(y.sum())}, {x}, {}, retain)[0], expected));
        }
      }
    }
  }
}

TEST_F(CheckpointGroupTest, C043e_ReleaseFreesWhatNobodyTook) {
  GraphExecGroup group;
  run_forward();
  const std::int64_t bytes = live_cpu_bytes();
  {
    const GraphExecGroupGuard entered(group);
    from_z_to_y();
  }
  EXPECT_GT(live_cpu_bytes(), bytes) << "the group keeps what from_y_to_x would need";
  group.release();
  EXPECT_EQ(live_cpu_bytes(), bytes);
  group.release();
  const GraphExecGroupGuard entered(group);
  expect_plain_gradient(from_y_to_x(from_z_to_y()));
  EXPECT_EQ(runs_, 3);
}

TEST_F(CheckpointGroupTest, C043f_FreesUntakenTensorsWithTheGroup) {
  run_forward();
  const std::int64_t bytes = live_cpu_bytes();
  {
    GraphExecGroup group;
    const GraphExecGroupGuard entered(group);
    from_z_to_y();
    EXPECT_GT(live_cpu_bytes(), bytes);
  }
  EXPECT_EQ(live_cpu_bytes(), bytes);
}

TEST_F(CheckpointGroupTest, C043g_AllowsGroupToOutliveTheGraph) {
  GraphExecGroup group;
  const GraphExecGroupGuard entered(group);
  for (int i = 0; i < 10; ++i) {
    run_forward();
    from_z_to_y();
    z_ = y_ = at::Tensor();
    EXPECT_EQ(live_frames(), 0);
    EXPECT_EQ(live_cpu_bytes(), x_.nbytes());
  }
  group.recompute_now();
}

TEST_F(CheckpointGroupTest, C043h_RecomputeNowLeavesNothingForBackwardToRun) {
  GraphExecGroup group;
  {
    const GraphExecGroupGuard entered(group);
    run_forward();
  }
  EXPECT_EQ(runs_, 1);
  group.recompute_now();
  EXPECT_EQ(runs_, 2);
  group.recompute_now();
  EXPECT_EQ(runs_, 2);
  const GraphExecGroupGuard entered(group);
  expect_plain_gradient(from_y_to_x(from_z_to_y()));
  EXPECT_EQ(runs_, 2);
}

TEST_F(CheckpointGroupTest, C043i_RecomputeNowSuppliesNestedAndChainedRegions) {
  std::vector<int> runs(3);
  GraphExecGroup group;
  const at::Tensor x = leaf({8});
  at::Tensor y;
  {
    const GraphExecGroupGuard entered(group);
    y = checkpoint(
        [&runs](const at::Tensor& t) {
          ++runs[0];
          return checkpoint(
                     [&runs](const at::Tensor& s) {
                       ++runs[1];
                       return s.sin().exp();
                     },
                     t.cos())
              .sin();
        },
        x);
    y = checkpoint(
        [&runs](const at::Tensor& t) {
          ++runs[2];
          return t.exp().cos();
        },
        y);
  }
  group.recompute_now();
  const std::vector<int> after = runs;
  const GraphExecGroupGuard entered(group);
  const at::Tensor gradient = gradients(y, {x})[0];
  EXPECT_TRUE(bitwise_equal(gradient, gradients(x.cos().sin().exp().sin().exp().cos(), {x})[0]));
  EXPECT_EQ(runs, after);
  EXPECT_EQ(runs[0], 2);
  EXPECT_EQ(runs[2], 2);
}

TEST_F(CheckpointGroupTest, C043j_BackwardOutsideOfTheGroupReplaysForItself) {
  GraphExecGroup group;
  {
    const GraphExecGroupGuard entered(group);
    run_forward();
  }
  group.recompute_now();
  expect_plain_gradient(from_y_to_x(from_z_to_y()));
  EXPECT_EQ(runs_, 4);
}

TEST_F(CheckpointGroupTest, C043k_ErrorInRecomputeNowLeavesTheGroupUsable) {
  bool fail = false;
  GraphExecGroup group;
  const at::Tensor x = leaf({8});
  at::Tensor y;
  {
    const GraphExecGroupGuard entered(group);
    y = checkpoint(
        [&fail](const at::Tensor& t) {
          const at::Tensor s = t.exp();
          if (fail) {
            throw std::out_of_range("foo");
          }
          return s.sin();
        },
        x);
  }
  fail = true;
  const std::int64_t bytes = live_cpu_bytes();
  EXPECT_THAT([&] { group.recompute_now(); },
              ::testing::ThrowsMessage<std::out_of_range>(HasSubstr("foo")));
  EXPECT_EQ(live_cpu_bytes(), bytes);
  fail = false;
  group.recompute_now();
  const GraphExecGroupGuard entered(group);
  EXPECT_TRUE(bitwise_equal(gradients(y, {x})[0], gradients(x.exp().sin(), {x})[0]));
}

TEST_F(CheckpointGroupTest, C043l_GroupCanBeMoved) {
  GraphExecGroup made_elsewhere;
  GraphExecGroup group = std::move(made_elsewhere);
  run_forward();
  const GraphExecGroupGuard entered(group);
  expect_plain_gradient(from_y_to_x(from_z_to_y()));
  EXPECT_EQ(runs_, 2);
}

TEST_F(CheckpointGroupTest, C044_WithoutAGroupEachBackwardReplays) {
  run_forward();
  expect_plain_gradient(from_y_to_x(from_z_to_y()));
  EXPECT_EQ(runs_, 3);
}

TEST_F(CheckpointGroupTest, C046_GroupsCannotBeNested) {
  GraphExecGroup first;
  GraphExecGroup second;
  {
    const GraphExecGroupGuard entered(first);
    for (GraphExecGroup* group : {&first, &second}) {
      try {
        const GraphExecGroupGuard again(*group);
        FAIL() << "no error";
      } catch (const CheckpointError& error) {
        EXPECT_THAT(error.what(), HasSubstr("GraphExecGroup contexts cannot be nested"));
      }
      EXPECT_TRUE(GraphExecGroupGuard::is_active());
    }
  }
  EXPECT_FALSE(GraphExecGroupGuard::is_active());
  const GraphExecGroupGuard entered(second);
}

}  // namespace
}  // namespace reprise::testing::group_test
