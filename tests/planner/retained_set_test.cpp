// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/cut/retained_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "reprise/planner/trace.h"

namespace reprise::testing::retained_set_test {
namespace {

using planner::OperatorId;
using planner::Trace;
using planner::ValueId;
using planner_internal::RetainedSet;
using planner_internal::RetainedSets;
using ::testing::ElementsAre;

// Makes one value, which has the operator's number.
struct Step {
  double seconds = 1;
  std::int64_t bytes = 64;
  std::vector<ValueId> reads = {};
  bool is_saved = false;  // backward reads the value
  bool may_retain = true;
};

class Region {
 public:
  explicit Region(const std::vector<Step>& steps) {
    planner::Operator backward;
    for (const Step& step : steps) {
      const auto last = static_cast<OperatorId>(steps.size()) - 1;
      const ValueId value = trace_.add_value({.bytes = step.bytes, .released = last});
      trace_.operators.push_back(
          {.seconds = step.seconds, .reads = step.reads, .results = {value}});
      may_retain_.push_back(step.may_retain);
      if (step.is_saved) {
        backward.reads.push_back(value);
      }
    }
    trace_.backward_begin = static_cast<OperatorId>(steps.size());
    trace_.operators.push_back(backward);
    trace_.validate();
  }

  RetainedSets sets() const { return {trace_, may_retain_}; }
  RetainedSet within(std::int64_t bytes) const { return sets().within(bytes); }

 private:
  Trace trace_;
  std::vector<bool> may_retain_;
};

TEST(RetainedSetTest, SparesTheMostSecondsWithinBytes) {
  const Region region({{.seconds = 1, .bytes = 100, .is_saved = true},
                       {.seconds = 4.5, .bytes = 300, .is_saved = true},
                       {.seconds = 4, .bytes = 200, .is_saved = true},
                       {.seconds = 9, .bytes = 50}});
  const RetainedSet set = region.within(300);
  EXPECT_THAT(set.is_retained, ElementsAre(true, false, true, false));
  EXPECT_EQ(set.bytes, 300);
  EXPECT_EQ(set.seconds, 4.5);
  EXPECT_THAT(region.within(0).is_retained, ElementsAre(false, false, false, false));
  EXPECT_EQ(region.sets().none().seconds, 9.5);
  EXPECT_THAT(region.sets().all().is_retained, ElementsAre(true, true, true, false));
  EXPECT_EQ(region.sets().all().bytes, 600);
  EXPECT_EQ(region.sets().all().seconds, 0);
}

TEST(RetainedSetTest, IsOfTheFirstOfEqualValues) {
  const Region region(std::vector<Step>(4, {.is_saved = true}));
  EXPECT_THAT(region.within(64).is_retained, ElementsAre(true, false, false, false));
  EXPECT_THAT(region.within(191).is_retained, ElementsAre(true, true, false, false));
}

TEST(RetainedSetTest, LeavesOutWhatNoBackwardNeeds) {
  // The last matmul of a residual block, and the sum after it.
  const Region region({{.seconds = 2, .is_saved = true},
                       {.seconds = 5, .reads = {0}},
                       {.seconds = 1, .reads = {1}}});
  EXPECT_THAT(region.sets().all().is_retained, ElementsAre(true, false, false));
  EXPECT_EQ(region.sets().none().seconds, 2);
}

TEST(RetainedSetTest, SparesAllThatLeadsToAValue) {
  const auto chain = [](std::int64_t bytes_of_sum) {
    return Region({{.seconds = 5, .bytes = 64},
                   {.seconds = 1, .bytes = bytes_of_sum, .reads = {0}, .is_saved = true}});
  };
  EXPECT_THAT(chain(64).within(64).is_retained, ElementsAre(false, true));
  EXPECT_EQ(chain(64).within(64).seconds, 0);
  EXPECT_THAT(chain(65).within(64).is_retained, ElementsAre(true, false));
  EXPECT_EQ(chain(65).within(64).seconds, 1);
}

TEST(RetainedSetTest, MakesWhatMayNotBeRetained) {
  const Region region({{.seconds = 2, .may_retain = false},
                       {.seconds = 1, .bytes = 640, .reads = {0}, .is_saved = true}});
  EXPECT_EQ(region.within(639).seconds, 3);
  EXPECT_THAT(region.within(640).is_retained, ElementsAre(false, true));
  const Region saved({{.seconds = 2, .is_saved = true, .may_retain = false}});
  EXPECT_THAT(saved.sets().all().is_retained, ElementsAre(false));
  EXPECT_EQ(saved.sets().all().seconds, 2);
}

TEST(RetainedSetTest, OfARegionWithoutBackwardIsEmpty) {
  EXPECT_THAT(Region({}).within(64).is_retained, ElementsAre());
  EXPECT_EQ(Region(std::vector<Step>(3)).within(64).bytes, 0);
}

// Of any size, of few sizes, or with seconds in proportion to the bytes.
std::vector<Step> random_steps(std::mt19937_64& random, int count) {
  const auto kind = random() % 3;
  std::vector<Step> steps;
  for (int i = 0; i < count; ++i) {
    Step step;
    step.bytes = kind == 1 ? static_cast<std::int64_t>(1 + random() % 3) * 256
                           : static_cast<std::int64_t>(1 + random() % 5000);
    step.seconds = kind == 2 ? static_cast<double>(step.bytes) / (1 << 20)
                             : static_cast<double>(1 + random() % 999) / 1024;
    step.is_saved = random() % 2 == 0;
    step.may_retain = random() % 8 != 0;
    for (int reads = static_cast<int>(random() % 3); reads > 0 && i > 0; --reads) {
      step.reads.push_back(static_cast<ValueId>(random() % static_cast<std::uint64_t>(i)));
    }
    steps.push_back(step);
  }
  return steps;
}

// Returns the seconds and bytes of all sets of values.
std::vector<RetainedSet> exhaustive(const std::vector<Step>& steps) {
  std::vector<RetainedSet> all;
  for (std::uint32_t chosen = 0; chosen < 1U << steps.size(); ++chosen) {
    RetainedSet set;
    bool is_allowed = true;
    std::vector<bool> is_rerun(steps.size());
    std::vector<bool> is_needed(steps.size());
    for (std::size_t i = steps.size(); i-- > 0;) {
      const bool is_chosen = (chosen >> i & 1U) != 0;
      is_allowed = is_allowed && (!is_chosen || steps[i].may_retain);
      if (!is_chosen && (steps[i].is_saved || is_needed[i])) {
        set.seconds += steps[i].seconds;
        for (const ValueId read : steps[i].reads) {
          is_needed[static_cast<std::size_t>(read)] = true;
        }
      }
      set.bytes += is_chosen ? steps[i].bytes : 0;
    }
    if (is_allowed) {
      all.push_back(set);
    }
  }
  return all;
}

TEST(RetainedSetTest, IsTheOptimumOfRandomRegions) {
  std::mt19937_64 random(7);
  for (int program = 0; program < 300; ++program) {
    const std::vector<Step> steps = random_steps(random, 10);
    const Region region(steps);
    const RetainedSets sets = region.sets();
    const std::vector<RetainedSet> all = exhaustive(steps);
    const auto least_seconds = [&](std::int64_t bytes) {
      double least = std::numeric_limits<double>::infinity();
      for (const RetainedSet& set : all) {
        least = set.bytes <= bytes ? std::min(least, set.seconds) : least;
      }
      return least;
    };
    EXPECT_DOUBLE_EQ(sets.all().seconds, least_seconds(1 << 20)) << program;
    for (int tenth = 1; tenth < 10; tenth += 2) {
      const std::int64_t limit = sets.all().bytes * tenth / 10;
      const RetainedSet found = sets.within(limit);
      EXPECT_LE(found.bytes, limit) << program;
      EXPECT_NEAR(found.seconds, least_seconds(limit), 1e-9) << program;
    }
  }
}

TEST(RetainedSetTest, SparesNoLessThanHalfOfTheBytesDo) {
  std::mt19937_64 random(8);
  for (int program = 0; program < 50; ++program) {
    const Region region(random_steps(random, 60));
    const RetainedSets sets = region.sets();
    const std::int64_t bytes = sets.all().bytes / 2;
    EXPECT_LE(sets.within(bytes).seconds, sets.within(bytes / 2).seconds) << program;
    EXPECT_LE(sets.within(bytes / 2).seconds, sets.none().seconds) << program;
  }
}

}  // namespace
}  // namespace reprise::testing::retained_set_test
