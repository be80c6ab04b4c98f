// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans that are made on a thread of the budget while steps go on.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "reprise/engine/budget/background_planning.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/testing/op_recorder.h"

namespace reprise::testing::budget_background_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Keeps plans in the background from being made until it is opened. Outlives the budgets.
class Gate {
 public:
  Gate() {
    engine_internal::set_background_planning_observer([this] { pass(); });
  }
  ~Gate() {
    open();
    engine_internal::set_background_planning_observer(nullptr);
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    has_changed_.notify_all();
  }
  // Returns once so many plans are at the gate.
  void wait_for(int plans) {
    std::unique_lock lock(mutex_);
    has_changed_.wait(lock, [&] { return at_gate_ == plans; });
  }

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    ++at_gate_;
    has_changed_.notify_all();
    has_changed_.wait(lock, [&] { return is_open_; });
    --at_gate_;
  }

  std::mutex mutex_;
  std::condition_variable has_changed_;
  bool is_open_ = false;
  int at_gate_ = 0;
};

class BudgetBackgroundTest : public BudgetedSteps {
 protected:
  void TearDown() override {
    std::remove(path_.c_str());
    plain_ = {};
    weights_.clear();
    BudgetedSteps::TearDown();
  }

  static at::Tensor forward(const Tensors& weights) {
    return layers(weights, at::linspace(0.1, 1, 512 * kWidth).view({512, kWidth}));
  }

  std::unique_ptr<MemoryBudget> budget_of(double part, bool plans_in_background = true) const {
    return std::make_unique<MemoryBudget>(
        MemoryBudgetOptions{.peak_bytes = budget_bytes(weights_, part, plain_),
                            .plans_in_background = plans_in_background});
  }

  // Expects the bits of the plain step and the budget to be kept.
  BudgetedStep expect_step(MemoryBudget& budget, double part) const {
    const std::int64_t peak_bytes = budget_bytes(weights_, part, plain_);
    const Outcome got = step(weights_, &budget, forward);
    EXPECT_LE(got.peak_bytes, peak_bytes);
    EXPECT_EQ(budget.last_step()->peak_bytes, got.peak_bytes);
    expect_same_bits(got.gradients, plain_.gradients);
    return *budget.last_step();
  }

  // Waits for what is planned in the background. Returns what the budget knows.
  std::string saved(const MemoryBudget& budget) const {
    budget.save_plans(path_);
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  const std::string path_ =
      ::testing::TempDir() + "/reprise_background_" + std::to_string(::getpid()) + ".plans";
  Tensors weights_ = make_weights(4);
  Outcome plain_ = step(weights_, nullptr, forward);
};

TEST_F(BudgetBackgroundTest, StepsGoOnWithinTheBudgetUntilThePlanIsThere) {
  for (const double part : {0.4, 0.7}) {
    SCOPED_TRACE(part);
    Gate gate;
    const auto budget = budget_of(part);
    for (int i = 0; i < 5; ++i) {
      SCOPED_TRACE(i);
      const BudgetedStep last = expect_step(*budget, part);
      EXPECT_FALSE(last.is_planned());
      EXPECT_TRUE(last.is_recorded);
      EXPECT_LE(last.plans, 1);  // that of the backward alone, which the step itself waits for
    }
    gate.wait_for(1);
    gate.open();
    saved(*budget);
    const BudgetedStep planned = expect_step(*budget, part);
    EXPECT_TRUE(planned.is_planned());
    EXPECT_EQ(planned.plans, 1);
    EXPECT_EQ(planned.planning_seconds, 0);
    EXPECT_EQ(planned.evicted_bytes, 0);
  }
}

// Of the same recording.
TEST_F(BudgetBackgroundTest, ThePlansAreThoseThatAStepWaitsFor) {
  const EqualTimes equal_times;
  for (const double part : {0.4, 0.6, 0.8}) {
    SCOPED_TRACE(part);
    {
      const auto recorded = budget_of(part);
      expect_step(*recorded, part);
      expect_step(*recorded, part);
      EXPECT_THAT(saved(*recorded), Not(HasSubstr("room_bytes")));
    }
    std::vector<BudgetedStep> last;
    std::vector<std::size_t> operators;
    for (const bool in_background : {false, true}) {
      const auto budget = budget_of(part, in_background);
      budget->load_plans(path_);
      EXPECT_EQ(expect_step(*budget, part).is_planned(), !in_background);
      budget->save_plans(path_ + ".planned");  // waits
      const OpRecorder recorder;
      last.push_back(expect_step(*budget, part));
      operators.push_back(recorder.names().size());
    }
    std::remove((path_ + ".planned").c_str());
    EXPECT_TRUE(last[1].is_planned());
    EXPECT_EQ(operators[0], operators[1]);
    EXPECT_EQ(last[0].predicted_peak_bytes, last[1].predicted_peak_bytes);
    EXPECT_EQ(last[0].peak_bytes, last[1].peak_bytes);
    EXPECT_NEAR(last[0].predicted_seconds - last[0].plain_seconds,
                last[1].predicted_seconds - last[1].plain_seconds, 1e-9);
  }
}

// Of the plan of an earlier recording until there is one of the later one.
TEST_F(BudgetBackgroundTest, StepsFollowTheEarlierPlanMeanwhile) {
  constexpr double kPart = 0.6;
  const auto budget = budget_of(kPart);
  expect_step(*budget, kPart);
  expect_step(*budget, kPart);  // asks for a plan
  saved(*budget);
  Gate gate;
  for (int i = 0; i < 3; ++i) {
    const BudgetedStep last = expect_step(*budget, kPart);
    EXPECT_TRUE(last.is_planned()) << i;
    EXPECT_EQ(last.planning_seconds, 0) << i;
  }
  gate.wait_for(1);
}

TEST_F(BudgetBackgroundTest, NothingIsPlannedBesideStepsByDefault) {
  Gate gate;
  const auto budget = budget_of(0.6, /*plans_in_background=*/false);
  expect_step(*budget, 0.6);
  const BudgetedStep second = expect_step(*budget, 0.6);
  EXPECT_TRUE(second.is_planned());
  EXPECT_GT(second.planning_seconds, 0);
}

TEST_F(BudgetBackgroundTest, ItsEndFilesAndReportsWaitForThePlan) {
  for (const int which : {0, 1, 2}) {
    SCOPED_TRACE(which);
    auto budget = budget_of(0.6);
    expect_step(*budget, 0.6);
    expect_step(*budget, 0.6);
    EXPECT_THAT(saved(*budget), Not(HasSubstr("room_bytes")));  // of the later recording
    Gate gate;
    expect_step(*budget, 0.6);
    gate.wait_for(1);
    std::atomic<bool> has_opened = false;
    std::thread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      has_opened = true;
      gate.open();
    });
    if (which == 0) {
      budget.reset();
    } else if (which == 1) {
      EXPECT_THAT(saved(*budget), HasSubstr("room_bytes"));
    } else {
      EXPECT_THAT(budget->explain("aten::gelu"), HasSubstr("aten::gelu"));
    }
    EXPECT_TRUE(has_opened);
    opener.join();
  }
}

TEST_F(BudgetBackgroundTest, BudgetsPlanAtTheSameTime) {
  Gate gate;
  const auto one = budget_of(0.4);
  const auto other = budget_of(0.7);
  for (int i = 0; i < 2; ++i) {
    expect_step(*one, 0.4);
    expect_step(*other, 0.7);
  }
  gate.wait_for(2);
  gate.open();
  for (int i = 0; i < 4; ++i) {
    saved(*one);
    saved(*other);
    expect_step(*one, 0.4);
    expect_step(*other, 0.7);
  }
  EXPECT_TRUE(one->last_step()->is_planned());
  EXPECT_TRUE(other->last_step()->is_planned());
}

// The next step has the error, and the one after it a plan.
TEST_F(BudgetBackgroundTest, AnExceptionOfPlanningIsThatOfTheNextStep) {
  const auto budget = budget_of(0.6);
  engine_internal::set_background_planning_observer([] { throw std::bad_alloc(); });
  expect_step(*budget, 0.6);
  expect_step(*budget, 0.6);
  EXPECT_THROW(saved(*budget), std::bad_alloc);
  engine_internal::set_background_planning_observer(nullptr);
  for (int i = 0; i < 2; ++i) {
    expect_step(*budget, 0.6);
    saved(*budget);
  }
  EXPECT_TRUE(expect_step(*budget, 0.6).is_planned());
}

// An error that leaves a step while its plan is being made.
TEST_F(BudgetBackgroundTest, AFailedStepLeavesThePlanAlone) {
  Gate gate;
  const auto budget = budget_of(0.6);
  expect_step(*budget, 0.6);
  expect_step(*budget, 0.6);
  gate.wait_for(1);
  const auto fail = [](const Tensors& weights) -> at::Tensor {
    static_cast<void>(forward(weights));
    throw std::runtime_error("the program's");
  };
  EXPECT_THROW(step(weights_, budget.get(), fail), std::runtime_error);
  gate.open();
  saved(*budget);
  EXPECT_TRUE(expect_step(*budget, 0.6).is_planned());
}

// The thread is missing in a child, which begins to plan anew. LibTorch refuses a backward there.
TEST_F(BudgetBackgroundTest, AForkedChildPlansAnew) {
  Gate gate;
  auto budget = budget_of(0.6);
  expect_step(*budget, 0.6);
  expect_step(*budget, 0.6);
  gate.wait_for(1);
  const pid_t child = ::fork();
  if (child == 0) {
    gate.open();
    {
      const BudgetScope scope(*budget);
      static_cast<void>(forward(weights_));
    }
    const bool has_plan = saved(*budget).find("room_bytes") != std::string::npos;
    budget.reset();
    ::_exit(has_plan ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate.open();
  saved(*budget);
  EXPECT_TRUE(expect_step(*budget, 0.6).is_planned());
}

}  // namespace
}  // namespace reprise::testing::budget_background_test
