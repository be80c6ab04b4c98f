// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/policies/budget/budget_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise::policies_internal::budget_plan_test {
namespace {

using ::testing::ElementsAre;

// An operator of forward, about which the policy was asked unless it has no seconds.
struct Step {
  double seconds = 1;
  std::int64_t bytes = 64;
  std::vector<planner::ValueId> reads = {};
  bool is_saved = true;  // by autograd
  planner::ValueId overwrites = planner::kNone;
  bool is_transfer = false;
};

// Every second operator of the region is on the trace.
BudgetPlan plan_of(const std::vector<Step>& steps, const BudgetPolicyOptions& options) {
  std::vector<RecordedCall> calls;
  RegionTrace region;
  planner::Operator backward;
  for (const Step& step : steps) {
    const auto ordinal = static_cast<std::int64_t>(2 * region.ordinals.size());
    if (step.seconds > 0) {
      calls.push_back({.ordinal = ordinal, .bytes = step.bytes, .seconds = step.seconds});
    }
    region.ordinals.push_back(ordinal);
    region.may_save.push_back(true);
    if (step.overwrites != planner::kNone) {
      region.may_save[static_cast<std::size_t>(step.overwrites)] = false;
    }
    const planner::ValueId value =
        region.trace.add_value({.released = static_cast<planner::OperatorId>(steps.size()) - 1,
                                .overwrites = step.overwrites});
    region.trace.operators.push_back(
        {.can_recompute = !step.is_transfer, .reads = step.reads, .results = {value}});
    if (step.is_saved) {
      backward.reads.push_back(value);
    }
  }
  region.trace.backward_begin = static_cast<planner::OperatorId>(steps.size());
  region.trace.operators.push_back(backward);
  return plan_run(calls, std::move(region), options);
}

const std::vector<Step> kFour = {{.seconds = 1, .bytes = 100},
                                 {.seconds = 4.5, .bytes = 300},
                                 {.seconds = 4, .bytes = 200},
                                 {.seconds = 9, .bytes = 50, .is_saved = false}};

TEST(BudgetPlanTest, SavesTheMostSecondsWithinBytes) {
  const BudgetPlan plan = plan_of(kFour, {.saved_bytes = 300});
  EXPECT_THAT(plan.saves, ElementsAre(true, false, true, false));
  EXPECT_EQ(plan.figures.operators, 4);
  EXPECT_EQ(plan.figures.result_bytes, 650);
  EXPECT_EQ(plan.figures.useful_bytes, 600);
  EXPECT_EQ(plan.figures.limit_bytes, 300);
  EXPECT_EQ(plan.figures.saved_bytes, 300);
  EXPECT_EQ(plan.figures.seconds, 9.5);
  EXPECT_EQ(plan.figures.saved_seconds, 5);
}

TEST(BudgetPlanTest, TakesAFractionOfTheUsefulBytes) {
  EXPECT_THAT(plan_of(kFour, {.saved_fraction = 0}).saves, ElementsAre(false, false, false, false));
  EXPECT_THAT(plan_of(kFour, {.saved_fraction = 1}).saves, ElementsAre(true, true, true, false));
  const BudgetPlan plan = plan_of(kFour, {.saved_fraction = 0.5});
  EXPECT_EQ(plan.figures.limit_bytes, 300);
  EXPECT_THAT(plan.saves, ElementsAre(true, false, true, false));
}

TEST(BudgetPlanTest, SavesAResultAtTheLastWriteToIt) {
  const BudgetPlan plan = plan_of({{.seconds = 1, .is_saved = false},
                                   {.seconds = 1},
                                   {.seconds = 3, .reads = {0}, .overwrites = 0}},
                                  {.saved_bytes = 64});
  EXPECT_THAT(plan.saves, ElementsAre(false, false, true));
  EXPECT_EQ(plan.figures.saved_seconds, 4);
  EXPECT_EQ(plan.figures.result_bytes, 128);
}

TEST(BudgetPlanTest, PassesOperatorsThatItWasNotAskedAbout) {
  const BudgetPlan plan = plan_of({{.seconds = 0}, {.seconds = 2, .reads = {0}}, {.seconds = 0}},
                                  {.saved_fraction = 1});
  EXPECT_THAT(plan.saves, ElementsAre(true));
  EXPECT_EQ(plan.figures.useful_bytes, 64);
}

TEST(BudgetPlanTest, LetsAllRanksRepeatTransfers) {
  const BudgetPlan plan = plan_of(
      {{.seconds = 9, .is_transfer = true}, {.seconds = 1, .reads = {0}}}, {.saved_fraction = 1});
  EXPECT_THAT(plan.saves, ElementsAre(false, true));
  EXPECT_EQ(plan.figures.seconds, 1);
}

}  // namespace
}  // namespace reprise::policies_internal::budget_plan_test
