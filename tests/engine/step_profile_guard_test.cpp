// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/step_profile_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/cpu_memory.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "tests/testing/modules.h"

namespace reprise::testing::step_profile_guard_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names_of_forward(const planner::Trace& trace) {
  std::vector<std::string> names;
  for (planner::OperatorId op = 0; op < trace.backward_begin; ++op) {
    names.push_back(trace.operators[op].name);
  }
  return names;
}

planner::OperatorId find_operator(const planner::Trace& trace, const std::string& name) {
  const auto found = std::find_if(trace.operators.begin(), trace.operators.end(),
                                  [&](const planner::Operator& op) { return op.name == name; });
  return found == trace.operators.end()
             ? planner::kNone
             : static_cast<planner::OperatorId>(found - trace.operators.begin());
}

// Of the operator that makes one value.
const planner::Value& result_of(const planner::Trace& trace, planner::OperatorId op) {
  return trace.values[trace.operators.at(op).results.at(0)];
}

constexpr std::int64_t kBytes = 1024;  // of a tensor of 16 x 16 floats
constexpr std::int64_t kScalarBytes = 4;

class StepProfileGuardTest : public ::testing::Test {
 protected:
  const at::Tensor x_ = torch::randn({16, 16}, torch::requires_grad());
  const at::Tensor w_ = torch::randn({16, 16}, torch::requires_grad());
};

TEST_F(StepProfileGuardTest, RecordsOperatorsOfForwardAndNodesOfBackward) {
  StepProfileGuard profile;
  x_.sin().exp().sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  trace.validate();
  EXPECT_THAT(names_of_forward(trace),
              ElementsAre("aten::sin", "aten::exp", "aten::sum", "aten::ones_like",
                          "between operators of forward"));
  std::vector<std::string> nodes;
  for (std::size_t op = trace.backward_begin; op < trace.operators.size(); ++op) {
    nodes.push_back(trace.operators[op].name);
  }
  EXPECT_THAT(nodes,
              ElementsAre("SumBackward0", "ExpBackward0", "SinBackward0",
                          "torch::autograd::AccumulateGrad", "between operators of backward"));
}

TEST_F(StepProfileGuardTest, RecordsValuesTheirBytesAndReaders) {
  StepProfileGuard profile;
  x_.sin().exp().sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  const planner::ValueId x = trace.operators[0].reads.at(0);
  EXPECT_EQ(trace.values[x].kind, planner::ValueKind::kParameter);
  EXPECT_EQ(trace.values[x].bytes, kBytes);
  EXPECT_EQ(trace.producers()[x], planner::kNone);
  const planner::ValueId sine = trace.operators[0].results.at(0);
  EXPECT_EQ(trace.values[sine].bytes, kBytes);
  EXPECT_EQ(trace.values[sine].kind, planner::ValueKind::kActivation);
  EXPECT_THAT(trace.operators[1].reads, ElementsAre(sine));
  EXPECT_EQ(result_of(trace, 2).bytes, kScalarBytes);
  const auto read_by = [&](const std::string& node) {
    return trace.operators.at(find_operator(trace, node)).reads;
  };
  EXPECT_THAT(read_by("SumBackward0"), IsEmpty());
  EXPECT_THAT(read_by("ExpBackward0"), ElementsAre(trace.operators[1].results.at(0)));
  EXPECT_THAT(read_by("SinBackward0"), ElementsAre(x));
}

TEST_F(StepProfileGuardTest, NotesWhenTheProgramReleasesWhatAutogradSaves) {
  StepProfileGuard profile;
  at::Tensor h = x_.mm(w_);
  at::Tensor y = h.mm(w_);
  h.reset();
  y = y.sin();
  y.sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  ASSERT_EQ(trace.operators[1].name, "aten::mm");
  EXPECT_EQ(result_of(trace, 0).released, 1);
  EXPECT_EQ(result_of(trace, 1).released, find_operator(trace, "aten::sin"));
  EXPECT_EQ(result_of(trace, 2).released, planner::kNone);  // y
}

TEST_F(StepProfileGuardTest, WriteInPlaceMakesAValueInTheSameMemory) {
  StepProfileGuard profile;
  x_.mm(w_).relu_().sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  ASSERT_EQ(trace.operators[1].name, "aten::relu_");
  const planner::ValueId product = trace.operators[0].results.at(0);
  const planner::Value& positive = result_of(trace, 1);
  EXPECT_EQ(positive.overwrites, product);
  EXPECT_EQ(positive.bytes, kBytes);
  EXPECT_EQ(trace.values[product].released, 1);
  EXPECT_THAT(trace.operators.at(find_operator(trace, "ReluBackward0")).reads,
              ElementsAre(trace.operators[1].results.at(0)));
}

TEST_F(StepProfileGuardTest, WriteToATensorFromOutsideMakesNoValue) {
  const at::Tensor count = torch::zeros({16});
  StepProfileGuard profile;
  count.add_(1);
  x_.sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  ASSERT_EQ(trace.operators[0].name, "aten::add_");
  EXPECT_THAT(trace.operators[0].results, IsEmpty());
}

TEST_F(StepProfileGuardTest, MemoryThatAnOperatorFreesAgainIsItsWorkspace) {
  StepProfileGuard profile;
  x_.logsumexp(0).sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  ASSERT_EQ(trace.operators[0].name, "aten::logsumexp");
  EXPECT_EQ(result_of(trace, 0).bytes, 16 * kScalarBytes);
  EXPECT_GE(trace.operators[0].workspace_bytes, kBytes);  // the exponentials
}

TEST_F(StepProfileGuardTest, TimesAddUpToTheStep) {
  using Clock = std::chrono::steady_clock;
  const at::Tensor large = torch::randn({256, 256}, torch::requires_grad());
  const Clock::time_point start = Clock::now();
  StepProfileGuard profile;
  large.mm(large).mm(large).sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  EXPECT_LE(trace.seconds(), seconds);
  EXPECT_GT(trace.seconds(), 0);
  EXPECT_GT(trace.operators[0].seconds, 0);
}

TEST_F(StepProfileGuardTest, StepComputesWhatItComputesWithoutTheGuard) {
  const auto gradients = [&] {
    torch::manual_seed(1);
    x_.mutable_grad() = w_.mutable_grad() = at::Tensor();
    torch::dropout(x_.mm(w_).relu_(), 0.5, true).mm(w_).square().mean().backward();
    return std::vector<at::Tensor>{x_.grad(), w_.grad()};
  };
  const std::vector<at::Tensor> expected = gradients();
  StepProfileGuard profile;
  const std::vector<at::Tensor> got = gradients();
  std::move(profile).finish().validate();
  expect_same_bits(got, expected);
}

TEST_F(StepProfileGuardTest, PredictsThePeakOfThePlainStep) {
  install_cpu_memory_counter();
  const auto step = [&] {
    at::Tensor h = x_;
    for (int i = 0; i < 8; ++i) {
      h = torch::dropout(torch::gelu(h.mm(w_)), 0.5, true) + h;
    }
    h.square().mean().backward();
  };
  step();  // gradients exist from now on
  const std::int64_t before = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  step();
  const std::int64_t peak = cpu_memory().peak_bytes - before;
  StepProfileGuard profile;
  step();
  const planner::Trace trace = std::move(profile).finish();
  const planner::Simulator simulator(trace);
  EXPECT_EQ(simulator.run(planner::retain_all(trace)).peak_bytes, before + peak);
}

TEST_F(StepProfileGuardTest, OperatorThatThrowsLeavesAValidTrace) {
  StepProfileGuard profile;
  const at::Tensor h = x_.sin();
  EXPECT_THROW(h.mm(torch::randn({3, 3})), c10::Error);
  h.sum().backward();
  std::move(profile).finish().validate();
}

TEST_F(StepProfileGuardTest, StepWithoutBackwardIsAllForward) {
  StepProfileGuard profile;
  const at::Tensor y = x_.sin();
  const planner::Trace trace = std::move(profile).finish();
  EXPECT_EQ(trace.backward_begin, static_cast<planner::OperatorId>(trace.operators.size()));
  EXPECT_EQ(trace.operators[0].name, "aten::sin");
}

TEST_F(StepProfileGuardTest, NothingIsObservedAfterItsEnd) {
  at::Tensor y;
  {
    StepProfileGuard profile;
    y = x_.sin().exp();
  }
  StepProfileGuard profile;
  y.sum().backward();  // its saved tensors are from the guard before
  const planner::Trace trace = std::move(profile).finish();
  EXPECT_EQ(trace.operators[0].name, "aten::sum");
  EXPECT_EQ(x_.grad().size(0), 16);
}

TEST_F(StepProfileGuardTest, TracesTheMemoryOfADevice) {
  if (!torch::cuda::is_available()) {
    GTEST_SKIP() << "needs a CUDA device";
  }
  const at::Tensor x = torch::randn({256, 256}, torch::device(at::kCUDA).requires_grad(true));
  x.sin().sum().backward();
  StepProfileGuard profile(x.device());
  x.sin().exp().sum().backward();
  const planner::Trace trace = std::move(profile).finish();
  trace.validate();
  EXPECT_EQ(result_of(trace, 0).bytes, 256 * 256 * 4);
  EXPECT_GT(trace.operators[0].seconds, 0);
}

}  // namespace
}  // namespace reprise::testing::step_profile_guard_test
