// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Long chains of equal operators within budgets of a few tensors: revolve's schedule is run.
// REPRISE_CHAIN_OPERATORS sets how many operators a chain has.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/planner/uniform_chain.h"
#include "tests/testing/number_from.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::budget_chains_test {
namespace {

constexpr std::int64_t kBytes = 256;
constexpr std::int64_t kScalars = 8;  // bytes of the loss and of its gradient

class BudgetChainsTest : public BudgetedSteps {
 protected:
  // Backward of sin() reads its input, and needs the gradients of both sides and a cosine: three
  // tensors, where Note [Revolve and the simulator] has one.
  static at::Tensor chain(const Tensors& inputs, int operators) {
    at::Tensor h = inputs[0];
    for (int op = 0; op < operators; ++op) {
      h = h.sin();
    }
    return h.sum();
  }
  static std::int64_t bytes_with(int snapshots) { return (snapshots + 3) * kBytes + kScalars; }

  static std::int64_t planned_reruns(const MemoryBudget& budget) {
    const planner::StepReport report = budget.step_report().value();
    const std::vector<planner::ScheduledRun> runs =
        planner::Simulator(report.trace).schedule(report.plan);
    return std::count_if(runs.begin(), runs.end(), [](const planner::ScheduledRun& run) {
      return run.requested_by != planner::kNone;
    });
  }

  EqualTimes equal_times;
};

TEST_F(BudgetChainsTest, RunTheOperatorsOfRevolve) {
  const int operators = static_cast<int>(number_from("REPRISE_CHAIN_OPERATORS", 1'000));
  const Tensors inputs = {leaf({kBytes / 4})};
  const Forward forward = [&](const Tensors& given) { return chain(given, operators); };
  const Outcome plain = step(inputs, nullptr, forward);
  for (const int snapshots : {3, 5, 10, 100}) {
    SCOPED_TRACE(c10::str(snapshots, " snapshots"));
    zero_gradients(inputs);
    MemoryBudget budget({.peak_bytes = cpu_memory().current_bytes + bytes_with(snapshots)});
    std::vector<std::int64_t> reruns;
    for (int i = 0; i < 3; ++i) {
      const OpRecorder recorder;
      const Outcome got = step(inputs, &budget, forward);
      reruns.push_back(static_cast<std::int64_t>(recorder.count("aten::sin")) - operators);
      EXPECT_LE(got.peak_bytes, budget.last_step()->limit_bytes);
      expect_same_bits(got.gradients, plain.gradients);
    }
    const auto least = static_cast<double>(revolve_recomputation(operators, snapshots));
    EXPECT_EQ(reruns[2], planned_reruns(budget));
    EXPECT_EQ(budget.last_step()->peak_bytes, budget.last_step()->predicted_peak_bytes);
    EXPECT_LE(static_cast<double>(reruns[2]), 1.02 * least);
    // The first and the last operators need less than those between.
    EXPECT_GE(static_cast<double>(reruns[2]), 0.98 * least);
    EXPECT_LE(static_cast<double>(reruns[0]), 1.3 * least);
  }
}

}  // namespace
}  // namespace reprise::testing::budget_chains_test
