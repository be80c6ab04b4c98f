// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a known step learns from measured steps, without steps.
#include "reprise/engine/budget/known_step.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/planner/uniform_chain.h"

namespace reprise::testing::known_step_test {
namespace {

using engine_internal::BudgetAim;
using engine_internal::KnownStep;
using engine_internal::MeasuredStep;
using engine_internal::PlanningShare;
using engine_internal::RecordedBackward;
using engine_internal::RecordedStep;
using engine_internal::StepPlan;
using engine_internal::StepScript;
using engine_internal::StoreRates;

constexpr std::int64_t kBytes = 100;  // of a value

// A chain, whose memory comes in hundreds of bytes.
RecordedStep chain() {
  RecordedStep recorded{
      {}, uniform_chain(/*operators=*/16, /*workspace_bytes=*/kBytes), RecordedBackward::kWhole};
  for (planner::ValueId id = 0; planner::Value & value : recorded.trace.values) {
    value.bytes *= kBytes;
    if (id > 0) {
      recorded.script.values.push_back({.id = id, .bytes = value.bytes});
    }
    ++id;
  }
  return recorded;
}

class KnownStepTest : public ::testing::Test {
 protected:
  // Beyond the bytes before the step.
  std::shared_ptr<const StepPlan> plan_for(std::int64_t growth) {
    return known_.plan_for({.peak_bytes = kBefore + growth, .max_overhead = {}}, kBefore,
                           /*kept=*/{},
                           /*is_under_way=*/false, share_, /*background=*/nullptr);
  }

  // Of more than two kinds of steps, until steps have run for long enough again.
  void use_up_share() {
    share_.note_kinds(3);
    share_.note_planning(1000 * known_.trace().seconds());
  }
  void give_time() { share_.note_step(6000 * known_.trace().seconds()); }

  static MeasuredStep measured(const StepPlan& plan, std::int64_t limit_growth) {
    return {.bytes_before = kBefore,
            .in_flight = {},
            .held_bytes = {},
            .rise_bytes = {},
            .growth = plan.peak_growth,
            .shortage_bytes = 0,
            .limit_growth = limit_growth,
            .seconds = {}};
  }

  static constexpr std::int64_t kBefore = 1000;
  KnownStep known_{chain(), StoreRates(0)};
  PlanningShare share_;
};

// A plan that leaves room to the limit has missed more than the guard had to find.
TEST_F(KnownStepTest, AShortageTellsWhatTheStepNeeds) {
  constexpr std::int64_t kRoom = 690;
  const auto first = plan_for(kRoom);
  ASSERT_EQ(first->peak_growth, 600);
  MeasuredStep short_of = measured(*first, kRoom);
  short_of.shortage_bytes = 4;  // of 694
  known_.calibrate(*first, short_of);
  const auto second = plan_for(kRoom);
  EXPECT_TRUE(second->is_new);
  EXPECT_LE(second->peak_growth, kRoom - 94);
  known_.calibrate(*second, measured(*second, kRoom));
  EXPECT_FALSE(plan_for(kRoom)->is_new);
}

TEST_F(KnownStepTest, AStepThatNeedsWhatIsPredictedIsPlannedOnce) {
  for (int i = 0; i < 30; ++i) {
    const auto plan = plan_for(690);
    EXPECT_EQ(plan->is_new, i == 0) << i;
    known_.calibrate(*plan, measured(*plan, 690));
  }
}

// Six plans for the two recordings, and then one in twenty steps: however often limits change.
TEST_F(KnownStepTest, PlansNoMoreThanItsShareOfSteps) {
  int plans = 0;
  constexpr int kSteps = 100;
  for (int i = 0; i < kSteps; ++i) {
    if (i == 1) {
      known_.add_recording(chain(), StoreRates(0));
    }
    const auto plan = plan_for(i % 2 == 0 ? 600 : 1200);
    plans += plan->is_new ? 1 : 0;
    known_.calibrate(*plan, measured(*plan, 1200));
  }
  EXPECT_GT(plans, 2);
  EXPECT_LE(plans, 6 + kSteps / 20);
}

// See Note [The share of planning].
TEST_F(KnownStepTest, APlanForMoreRoomWaitsForTime) {
  plan_for(600);
  use_up_share();
  const auto waiting = plan_for(1200);
  EXPECT_FALSE(waiting->is_new);
  EXPECT_LE(waiting->peak_growth, 600);
  give_time();
  const auto later = plan_for(1200);
  EXPECT_TRUE(later->is_new);
  EXPECT_LT(later->seconds, waiting->seconds);
}

TEST_F(KnownStepTest, APlanThatFitsDoesNotWait) {
  plan_for(1200);
  use_up_share();
  const auto plan = plan_for(600);
  EXPECT_TRUE(plan->is_new);
  EXPECT_LE(plan->peak_growth, 600);
}

TEST_F(KnownStepTest, FewKindsOfStepsHaveNoShare) {
  plan_for(600);
  use_up_share();
  share_.note_kinds(2);
  EXPECT_TRUE(plan_for(1200)->is_new);
}

TEST_F(KnownStepTest, AShortenedSearchIsMadeUpForOnce) {
  use_up_share();
  EXPECT_TRUE(plan_for(690)->is_new);
  EXPECT_FALSE(plan_for(690)->is_new);
  give_time();
  EXPECT_TRUE(plan_for(690)->is_new);
  EXPECT_FALSE(plan_for(690)->is_new);
}

}  // namespace
}  // namespace reprise::testing::known_step_test
