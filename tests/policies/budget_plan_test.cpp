// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "reprise/policies/budget/budget_plan.h"
#include "reprise/policies/budget/knapsack.h"

namespace reprise::policies_internal::budget_plan_test {
namespace {

using ::testing::ElementsAre;

constexpr double kRounding = 1e-9;  // sums in another order

Weighted total(const std::vector<Weighted>& items, const std::vector<bool>& chosen) {
  Weighted sum;
  for (std::size_t i = 0; i < items.size(); ++i) {
    sum.bytes += chosen[i] ? items[i].bytes : 0;
    sum.seconds += chosen[i] ? items[i].seconds : 0;
  }
  return sum;
}

std::int64_t all_bytes(const std::vector<Weighted>& items) {
  return std::accumulate(
      items.begin(), items.end(), std::int64_t{0},
      [](std::int64_t bytes, const Weighted& item) { return bytes + item.bytes; });
}

// Looks at all sets, each of which differs from the one before by one item.
double most_seconds(const std::vector<Weighted>& items, std::int64_t limit_bytes) {
  double most = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  for (std::uint64_t step = 1; step < std::uint64_t{1} << items.size(); ++step) {
    const int changed = std::countr_zero(step);
    const bool is_added = ((step ^ (step >> 1U)) >> changed & 1U) != 0;
    const Weighted& item = items[static_cast<std::size_t>(changed)];
    bytes += is_added ? item.bytes : -item.bytes;
    seconds += is_added ? item.seconds : -item.seconds;
    most = bytes <= limit_bytes ? std::max(most, seconds) : most;
  }
  return most;
}

// One of three kinds: of any size, of few sizes, and with seconds in proportion to the bytes.
std::vector<Weighted> random_items(std::mt19937& random, std::size_t count) {
  const auto kind = random() % 3;
  std::vector<Weighted> items(count);
  for (Weighted& item : items) {
    item.bytes = kind == 1 ? static_cast<std::int64_t>(random() % 4) * 256
                           : static_cast<std::int64_t>(random() % 5000);
    item.seconds = kind == 2 ? static_cast<double>(item.bytes) * 1e-9
                             : static_cast<double>(random() % 1000) * 1e-6;
  }
  return items;
}

TEST(KnapsackTest, IsOptimalOnRandomItems) {
  std::mt19937 random(3);
  for (int instance = 0; instance < 400; ++instance) {
    SCOPED_TRACE(instance);
    const std::vector<Weighted> items = random_items(random, random() % 13);
    const std::int64_t limit =
        static_cast<std::int64_t>(random()) % (all_bytes(items) + all_bytes(items) / 4 + 1);
    const Weighted found = total(items, most_seconds_within(items, limit));
    EXPECT_LE(found.bytes, limit);
    EXPECT_NEAR(found.seconds, most_seconds(items, limit), kRounding);
  }
}

TEST(KnapsackTest, IsOptimalOnTwentyItems) {
  std::mt19937 random(4);
  for (int instance = 0; instance < 6; ++instance) {
    SCOPED_TRACE(instance);
    const std::vector<Weighted> items = random_items(random, 20);
    const std::int64_t limit = all_bytes(items) / (2 + instance % 3);
    const Weighted found = total(items, most_seconds_within(items, limit));
    EXPECT_LE(found.bytes, limit);
    EXPECT_NEAR(found.seconds, most_seconds(items, limit), kRounding);
  }
}

TEST(KnapsackTest, SparesNoLessWithMoreBytes) {
  std::mt19937 random(5);
  for (int instance = 0; instance < 20; ++instance) {
    const std::vector<Weighted> items = random_items(random, 15);
    double before = 0;
    for (std::int64_t limit = 0; limit <= all_bytes(items); limit += 1 + all_bytes(items) / 50) {
      const double seconds = total(items, most_seconds_within(items, limit)).seconds;
      EXPECT_GE(seconds, before - kRounding);
      before = seconds;
    }
  }
}

TEST(KnapsackTest, ChoosesAllThatFit) {
  EXPECT_THAT(most_seconds_within(std::vector<Weighted>{{8, 1}, {0, 1}, {4, 0}, {4, 2}}, 12),
              ElementsAre(true, true, false, true));
  EXPECT_THAT(most_seconds_within(std::vector<Weighted>{{8, 1}, {0, 1}, {9, 5}}, 0),
              ElementsAre(false, true, false));
  EXPECT_TRUE(most_seconds_within({}, 100).empty());
}

TEST(KnapsackTest, ChoosesTheFirstOfEqualItems) {
  const std::vector<Weighted> items(4, {16, 1e-6});
  EXPECT_THAT(most_seconds_within(items, 40), ElementsAre(true, true, false, false));
  EXPECT_THAT(greedy_seconds_within(items, 40), ElementsAre(true, true, false, false));
}

TEST(KnapsackTest, ImprovesTheGreedyChoiceByOneExchange) {
  EXPECT_THAT(greedy_seconds_within(std::vector<Weighted>{{1, 2}, {10, 10}}, 10),
              ElementsAre(false, true));
}

TEST(KnapsackTest, EndsWithManyItems) {
  std::mt19937 random(6);
  std::vector<Weighted> items(3000);
  for (Weighted& item : items) {
    item = {1 + static_cast<std::int64_t>(random() % 100000),
            static_cast<double>(1 + random() % 100000) * 1e-9};
  }
  const std::int64_t limit = all_bytes(items) / 3;
  const Weighted found = total(items, most_seconds_within(items, limit));
  EXPECT_LE(found.bytes, limit);
  EXPECT_GE(found.seconds, total(items, greedy_seconds_within(items, limit)).seconds - kRounding);
}

// A run in which each operator makes one result.
struct Operator {
  double seconds = 1;
  std::int64_t bytes = 64;
  bool is_saved = false;                    // by autograd
  std::vector<std::uint32_t> readers = {};  // results
  bool is_constant = false;
  bool is_communicated = false;
};

RunRecord run_of(const std::vector<Operator>& operators) {
  RunRecord record;
  for (const Operator& op : operators) {
    const auto index = static_cast<std::uint32_t>(record.results.size());
    record.calls.push_back(
        {.ordinal = index, .bytes = op.bytes, .result = index, .seconds = op.seconds});
    RecordedResult result;
    result.bytes = op.bytes;
    result.last_call = index;
    result.is_saved = op.is_saved;
    result.is_constant = op.is_constant;
    result.is_communicated = op.is_communicated;
    result.readers.assign(op.readers.begin(), op.readers.end());
    record.results.push_back(result);
  }
  return record;
}

std::vector<double> worth_of(const std::vector<Operator>& operators) {
  return worth_of_results(run_of(operators));
}

TEST(WorthTest, IsTheTimeOfAResultThatAutogradSaves) {
  EXPECT_THAT(worth_of({{.seconds = 2, .is_saved = true, .readers = {1}},
                        {.seconds = 3, .is_saved = true}}),
              ElementsAre(2, 3));
}

TEST(WorthTest, IsNothingWhereNoBackwardNeedsTheResult) {
  // The last matmul of a residual block, and the sum after it.
  EXPECT_THAT(worth_of({{.seconds = 2, .is_saved = true, .readers = {1}},
                        {.seconds = 5, .readers = {2}},
                        {.seconds = 1}}),
              ElementsAre(2, 0, 0));
}

TEST(WorthTest, GoesToTheOnlyReaderIfThatIsNoLarger) {
  const auto chain = [](std::int64_t bytes_of_sum) {
    return worth_of({{.seconds = 5, .bytes = 64, .readers = {1}},
                     {.seconds = 1, .bytes = bytes_of_sum, .is_saved = true}});
  };
  EXPECT_THAT(chain(64), ElementsAre(0, 6));
  EXPECT_THAT(chain(65), ElementsAre(5, 1));
}

TEST(WorthTest, StaysWithAResultOfSeveralReaders) {
  EXPECT_THAT(worth_of({{.seconds = 5, .readers = {1, 2}},
                        {.seconds = 1, .is_saved = true},
                        {.seconds = 1, .is_saved = true}}),
              ElementsAre(5, 1, 1));
}

TEST(WorthTest, IsNothingForWhatTheEngineDoesNotKeep) {
  EXPECT_THAT(worth_of({{.seconds = 5, .is_saved = true, .is_constant = true},
                        {.seconds = 5, .bytes = 0, .is_saved = true},
                        {.seconds = 5, .is_saved = true, .is_communicated = true}}),
              ElementsAre(0, 0, 0));
}

TEST(WorthTest, OfAConstantGoesToItsOnlyReader) {
  EXPECT_THAT(worth_of({{.seconds = 2, .readers = {1}, .is_constant = true},
                        {.seconds = 1, .bytes = 640, .is_saved = true}}),
              ElementsAre(0, 3));
}

TEST(WorthTest, OfACollectiveIsSparedByNothing) {
  EXPECT_THAT(worth_of({{.seconds = 9, .readers = {1}, .is_communicated = true},
                        {.seconds = 1, .is_saved = true}}),
              ElementsAre(0, 1));
}

const std::vector<Operator> kThree = {{.seconds = 1, .bytes = 100, .is_saved = true},
                                      {.seconds = 4.5, .bytes = 300, .is_saved = true},
                                      {.seconds = 4, .bytes = 200, .is_saved = true},
                                      {.seconds = 9, .bytes = 50}};

TEST(BudgetPlanTest, SavesTheMostSecondsWithinBytes) {
  const BudgetPlan plan = plan_run(run_of(kThree), {.saved_bytes = 300});
  EXPECT_THAT(plan.saves, ElementsAre(true, false, true, false));
  EXPECT_EQ(plan.result_bytes, 650);
  EXPECT_EQ(plan.useful_bytes, 600);
  EXPECT_EQ(plan.limit_bytes, 300);
  EXPECT_EQ(plan.saved_bytes, 300);
  EXPECT_EQ(plan.seconds, 9.5);
  EXPECT_EQ(plan.saved_seconds, 5);
}

TEST(BudgetPlanTest, TakesAFractionOfTheUsefulBytes) {
  EXPECT_THAT(plan_run(run_of(kThree), {.saved_fraction = 0}).saves,
              ElementsAre(false, false, false, false));
  EXPECT_THAT(plan_run(run_of(kThree), {.saved_fraction = 1}).saves,
              ElementsAre(true, true, true, false));
  const BudgetPlan plan = plan_run(run_of(kThree), {.saved_fraction = 0.5});
  EXPECT_EQ(plan.limit_bytes, 300);
  EXPECT_THAT(plan.saves, ElementsAre(true, false, true, false));
}

TEST(BudgetPlanTest, SavesAResultAtTheLastWriteToIt) {
  RunRecord record = run_of({{.seconds = 1, .is_saved = true}, {.seconds = 1, .is_saved = true}});
  record.calls.push_back({.ordinal = 2, .bytes = 64, .result = 0, .seconds = 3});
  record.results[0].last_call = 2;
  const BudgetPlan plan = plan_run(record, {.saved_bytes = 64});
  EXPECT_THAT(plan.saves, ElementsAre(false, false, true));
  EXPECT_EQ(plan.saved_seconds, 4);
}

}  // namespace
}  // namespace reprise::policies_internal::budget_plan_test
