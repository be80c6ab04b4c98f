// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The trace of a step of each model of the zoo says how much memory the step needs.
#include <cstdint>
#include <string>

#include "bench/zoo/stepped_model.h"
#include "bench/zoo/zoo.h"
#include "reprise/engine/step_profile_guard.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "tests/models/model_names.h"

namespace reprise::testing::step_profile_test {
namespace {

constexpr std::int64_t kScale = 2;  // of the batches

class StepProfileTest : public ::testing::TestWithParam<std::string> {};

TEST_P(StepProfileTest, PredictsThePeakOfThePlainStep) {
  zoo::SteppedModel stepped(GetParam(), kScale);
  stepped.reset();
  planner::Trace trace;
  const std::int64_t before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  {
    StepProfileGuard profile;
    stepped.model().loss({}).backward();
    trace = std::move(profile).finish();
  }
  EXPECT_EQ(cpu_memory().peak_bytes - before, stepped.plain().peak);
  ASSERT_NO_THROW(trace.validate());
  const planner::Simulator simulator(trace);
  const planner::Simulation plain = simulator.run(planner::retain_all(trace));
  ASSERT_TRUE(plain.is_valid);
  EXPECT_EQ(plain.recompute_seconds, 0);
  EXPECT_EQ(plain.peak_bytes - before, stepped.plain().peak);
  const planner::Simulation none = simulator.run(planner::Plan(trace));
  EXPECT_TRUE(none.is_valid);
}

INSTANTIATE_TEST_SUITE_P(Zoo, StepProfileTest, ::testing::ValuesIn(model_names()),
                         [](const auto& named) { return identifier_of(named.param); });

}  // namespace
}  // namespace reprise::testing::step_profile_test
