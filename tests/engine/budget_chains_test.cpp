// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Long chains of equal operators within budgets of a few tensors: revolve's schedule is run, and
// with a store that of two levels of checkpoints. REPRISE_CHAIN_OPERATORS sets how many operators a
// chain has.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "reprise/engine/profile/step_recorder.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/stores.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/step_report.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/planner/uniform_chain.h"
#include "tests/testing/elsewhere_store.h"
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
  static std::int64_t bytes_with(int snapshots, std::int64_t bytes = kBytes) {
    return (snapshots + 3) * bytes + kScalars;
  }

  static std::int64_t planned_reruns(const MemoryBudget& budget) {
    const planner::StepReport report = budget.step_report().value();
    const std::vector<planner::ScheduledRun> runs =
        planner::Simulator(report.trace, report.stores).schedule(report.plan);
    return std::count_if(runs.begin(), runs.end(), [](const planner::ScheduledRun& run) {
      return run.requested_by != planner::kNone;
    });
  }

  // Runs steps within the memory of so many snapshots. Expects the third and the later ones to put
  // checkpoints into the store, and to run fewer operators again than revolve. is_exact: those of
  // their plans, with the peak of these.
  void expect_less_to_run_again(int snapshots, const std::shared_ptr<ActivationStore>& store,
                                bool is_exact) {
    SCOPED_TRACE(c10::str(snapshots, " snapshots"));
    const auto operators = static_cast<std::int64_t>(number_from("REPRISE_CHAIN_OPERATORS", 1'000));
    const Tensors inputs = {leaf({kStoredBytes / 4})};
    const Forward forward = [&](const Tensors& given) {
      return chain(given, static_cast<int>(operators));
    };
    const Outcome plain = step(inputs, nullptr, forward);
    zero_gradients(inputs);
    MemoryBudget budget(
        {.peak_bytes = cpu_memory().current_bytes + bytes_with(snapshots, kStoredBytes),
         .stores = {store}});
    for (int i = 0; i < 4; ++i) {
      SCOPED_TRACE(c10::str("step ", i));
      const OpRecorder recorder;
      const Outcome got = step(inputs, &budget, forward);
      const BudgetedStep last = *budget.last_step();
      const auto reruns = static_cast<std::int64_t>(recorder.count("aten::sin")) - operators;
      EXPECT_LE(got.peak_bytes, *last.limit_bytes);
      expect_same_bits(got.gradients, plain.gradients);
      if (i >= 2) {
        EXPECT_GE(last.stored_bytes, kStoredBytes);
        EXPECT_LT(last.stored_bytes, operators / 2 * kStoredBytes);
        EXPECT_LE(10 * reruns, 9 * revolve_recomputation(operators, snapshots));
      }
      if (i >= 2 && is_exact) {
        EXPECT_EQ(last.evicted_bytes, 0);
        EXPECT_EQ(last.peak_bytes, last.predicted_peak_bytes);
        EXPECT_EQ(reruns, planned_reruns(budget));
      }
    }
    EXPECT_EQ(live_frames(), 0);
  }

  static constexpr std::int64_t kStoredBytes = std::int64_t{128} << 10;

  EqualTimes equal_times;
};

// While alive, recorded operators take about as long as they do, and all the same.
class LongerTimes {
 public:
  LongerTimes() { Recorder::set_clock(&tick); }
  ~LongerTimes() { Recorder::set_clock(&Recorder::Clock::now); }
  LongerTimes(const LongerTimes&) = delete;
  LongerTimes& operator=(const LongerTimes&) = delete;

 private:
  using Recorder = engine_internal::StepRecorder;

  static Recorder::Clock::time_point tick() {
    static std::atomic<int> ticks = 0;
    return Recorder::Clock::time_point(std::chrono::microseconds(20) * ++ticks);
  }
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

// A copy takes as long as tens of operators.
TEST_F(BudgetChainsTest, AStoreTakesCheckpoints) {
  for (const int snapshots : {3, 5}) {
    expect_less_to_run_again(snapshots, std::make_shared<ElsewhereStore>(), true);
  }
}

// It depends on its threads when a value leaves.
TEST_F(BudgetChainsTest, ADiskTakesCheckpoints) {
  const LongerTimes longer;
  expect_less_to_run_again(5, stores::disk({.min_bytes = 0}), false);
}

}  // namespace
}  // namespace reprise::testing::budget_chains_test
