// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/largest_batch.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "reprise/planner/planner.h"
#include "reprise/planner/trace.h"
#include "tests/planner/model_traces.h"

namespace reprise::testing::largest_batch_test {
namespace {

using planner::BatchTrace;
using planner::LargestBatch;
using planner::LargestBatchOptions;
using planner::Planner;
using planner::Trace;
using planner::trace_for_batch;

Trace step(std::int64_t batch) { return mlp(/*layers=*/6, /*width=*/256, batch); }

class LargestBatchTest : public ::testing::Test {
 protected:
  std::optional<LargestBatch> find(const LargestBatchOptions& options) const {
    return find_largest_batch({.batch = 16, .trace = &small_}, {.batch = 64, .trace = &large_},
                              options);
  }

  const Trace small_ = step(16);
  const Trace large_ = step(64);
};

TEST_F(LargestBatchTest, ATraceOfAnotherBatchIsThatOfItsStep) {
  const Trace expected = step(256);
  const Trace found = trace_for_batch({16, &small_}, {64, &large_}, 256);
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (std::size_t i = 0; i < found.values.size(); ++i) {
    EXPECT_EQ(found.values[i].bytes, expected.values[i].bytes) << i;
  }
  for (std::size_t i = 0; i < found.operators.size(); ++i) {
    // Times are on the line, though the step's own need not be.
    const double small = small_.operators[i].seconds;
    EXPECT_NEAR(found.operators[i].seconds, small + 5 * (large_.operators[i].seconds - small),
                1e-12)
        << i;
    EXPECT_EQ(found.operators[i].workspace_bytes, expected.operators[i].workspace_bytes) << i;
  }
  EXPECT_NO_THROW(found.validate());
}

TEST_F(LargestBatchTest, OneMoreDoesNotFit) {
  const Trace larger = step(100);
  const std::int64_t budget = Planner(larger).smallest_peak().simulation.peak_bytes;
  const std::optional<LargestBatch> found = find({.peak_bytes = budget});
  ASSERT_TRUE(found.has_value());
  EXPECT_GE(found->batch, 100);
  EXPECT_LE(found->simulation.peak_bytes, budget);
  const Trace one_more = step(found->batch + 1);
  EXPECT_FALSE(Planner(one_more).plan(budget).has_value());
}

TEST_F(LargestBatchTest, WithoutRecomputationItIsThatOfThePlainStep) {
  const Trace larger = step(100);
  const Planner planner(larger);
  const std::int64_t peak = planner.simulator().run(retain_all(larger)).peak_bytes;
  const std::optional<LargestBatch> found = find({.peak_bytes = peak, .max_overhead = 1e-9});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->batch, 100);
}

TEST_F(LargestBatchTest, NoneFitsIntoLessThanTheParameters) {
  EXPECT_FALSE(find({.peak_bytes = 1024}).has_value());
}

TEST_F(LargestBatchTest, NoneIsLargerThanTheLargest) {
  EXPECT_EQ(find({.peak_bytes = std::int64_t{1} << 40, .largest = 1000})->batch, 1000);
}

TEST_F(LargestBatchTest, RefusesStepsThatAreNotOne) {
  const Trace deeper = mlp(/*layers=*/7, /*width=*/256, 64);
  EXPECT_THROW(static_cast<void>(trace_for_batch({16, &small_}, {64, &deeper}, 32)),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(trace_for_batch({16, &small_}, {16, &small_}, 32)),
               std::invalid_argument);
  EXPECT_THROW(static_cast<void>(trace_for_batch({16, &small_}, {64, &large_}, 0)),
               std::invalid_argument);
}

}  // namespace
}  // namespace reprise::testing::largest_batch_test
