// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans that outlive their budget: what a later one does with them, and with files that are broken.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/budgeted_steps.h"
#include "tests/testing/elsewhere_store.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::budget_plan_files_test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class BudgetPlanFilesTest : public BudgetedSteps {
 protected:
  void TearDown() override {
    weights_.clear();
    fs::remove(path_);
    BudgetedSteps::TearDown();
  }

  static at::Tensor forward(const Tensors& weights) {
    return layers(weights, at::linspace(0.1, 1, 512 * kWidth).view({512, kWidth}));
  }

  // A recurrent net without inputs.
  static at::Tensor cells(const Tensors& weights, int length) {
    at::Tensor state = at::linspace(0.1, 1, kWidth * kWidth).view({kWidth, kWidth});
    for (int i = 0; i < length; ++i) {
      const at::Tensor gate = weights[0].matmul(state).sigmoid();
      state = gate * weights[1].matmul(state).tanh() + (1 - gate) * state;
    }
    return state.square().mean();
  }

  // Saves all of one mask for each layer: to compute it again takes many times as long as a copy.
  static at::Tensor masked(const Tensors& weights) {
    const at::Tensor x = at::linspace(0.1, 1, 2048 * kWidth).view({2048, kWidth});
    at::Tensor h = x.matmul(weights[0]);
    for (int layer = 1; layer <= 24; ++layer) {
      at::Tensor mask = x / layer;
      for (int i = 0; i < 12; ++i) {
        mask = at::erfinv(at::tanh(mask));
      }
      h = at::where(mask > -0.01, h, 0);
    }
    return h.mean();
  }

  // Runs steps within a budget, and saves its plans.
  void save(const Tensors& weights, const MemoryBudgetOptions& options, const Forward& run,
            int steps = 4) const {
    MemoryBudget budget(options);
    for (int i = 0; i < steps; ++i) {
      step(weights, &budget, run);
    }
    budget.save_plans(path_);
  }

  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }
  // Replaces each `from` in the file, of which there is one at least.
  void replace(const std::string& from, const std::string& to) const {
    std::string edited = text();
    ASSERT_NE(edited.find(from), std::string::npos) << from;
    for (std::size_t at = 0; (at = edited.find(from, at)) != std::string::npos; at += to.size()) {
      edited.replace(at, from.size(), to);
    }
    write(edited);
  }

  // Runs a step and expects its bits and the budget to be kept. Returns it.
  static BudgetedStep expect_step(const Tensors& weights, MemoryBudget& budget, const Forward& run,
                                  const Outcome& plain, std::int64_t peak_bytes) {
    const Outcome got = step(weights, &budget, run);
    EXPECT_LE(got.peak_bytes, peak_bytes);
    expect_same_bits(got.gradients, plain.gradients);
    return *budget.last_step();
  }

  const std::string path_ = fs::path(::testing::TempDir()) /
                            ("reprise_budget_plans_" + std::to_string(::getpid()) + ".plans");
  Tensors weights_ = make_weights(4);
};

TEST_F(BudgetPlanFilesTest, StepsFollowTheirPlanFromTheFirstOneOn) {
  const Outcome plain = step(weights_, nullptr, forward);
  for (const double part : {0.4, 0.7}) {
    const std::int64_t peak_bytes = budget_bytes(weights_, part, plain);
    save(weights_, {.peak_bytes = peak_bytes}, forward);
    const std::string saved = text();
    MemoryBudget budget({.peak_bytes = peak_bytes});
    budget.load_plans(path_);
    EXPECT_FALSE(budget.last_step().has_value());
    EXPECT_THAT(budget.explain("aten::gelu"), HasSubstr("aten::gelu"));
    budget.save_plans(path_);
    EXPECT_EQ(text(), saved);
    for (int i = 0; i < 3; ++i) {
      const BudgetedStep last = expect_step(weights_, budget, forward, plain, peak_bytes);
      EXPECT_EQ(last.plans, 0);
      EXPECT_FALSE(last.is_recorded);
      EXPECT_EQ(last.predicted_peak_bytes, last.peak_bytes);
      EXPECT_EQ(last.evicted_bytes, 0);
    }
  }
}

TEST_F(BudgetPlanFilesTest, AnotherBudgetIsPlannedForWithoutARecording) {
  const Outcome plain = step(weights_, nullptr, forward);
  save(weights_, {.peak_bytes = budget_bytes(weights_, 0.6, plain)}, forward);
  for (const double part : {0.4, 0.9}) {
    const std::int64_t peak_bytes = budget_bytes(weights_, part, plain);
    MemoryBudget budget({.peak_bytes = peak_bytes});
    budget.load_plans(path_);
    for (int i = 0; i < 2; ++i) {
      const BudgetedStep last = expect_step(weights_, budget, forward, plain, peak_bytes);
      EXPECT_EQ(last.plans, i == 0 ? 1 : 0);
      EXPECT_FALSE(last.is_recorded);
      EXPECT_TRUE(last.is_planned());
      EXPECT_EQ(last.evicted_bytes, 0);
    }
  }
  for (const double overhead : {0.1, 0.5}) {
    MemoryBudget budget({.max_overhead = overhead});
    budget.load_plans(path_);
    const BudgetedStep last = expect_step(weights_, budget, forward, plain, plain.peak_bytes);
    EXPECT_EQ(last.plans, 1);
    EXPECT_FALSE(last.is_recorded);
    EXPECT_TRUE(last.is_planned());
    budget.save_plans(path_);
  }
}

TEST_F(BudgetPlanFilesTest, AStepThatWasObservedOnceIsObservedOnceMore) {
  const Outcome plain = step(weights_, nullptr, forward);
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.6, plain);
  save(weights_, {.peak_bytes = peak_bytes}, forward, 1);
  MemoryBudget budget({.peak_bytes = peak_bytes});
  budget.load_plans(path_);
  for (int i = 0; i < 3; ++i) {
    const BudgetedStep last = expect_step(weights_, budget, forward, plain, peak_bytes);
    EXPECT_TRUE(last.is_planned());
    EXPECT_EQ(last.is_recorded, i == 0);
  }
}

TEST_F(BudgetPlanFilesTest, StepsOfSeveralLengthsFollowTheirPlans) {
  const EqualTimes equal_times;
  const std::vector<int> lengths = {16, 20, 24};
  const auto of_length = [](int length) -> Forward {
    return [length](const Tensors& weights) { return cells(weights, length); };
  };
  std::vector<Outcome> plain;
  for (const int length : lengths) {
    plain.push_back(step(weights_, nullptr, of_length(length)));
  }
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.5, plain.back());
  MemoryBudget before({.peak_bytes = peak_bytes});
  for (int i = 0; i < 60; ++i) {
    step(weights_, &before, of_length(lengths[i % lengths.size()]));
  }
  before.save_plans(path_);
  MemoryBudget budget({.peak_bytes = peak_bytes});
  budget.load_plans(path_);
  for (std::size_t i = 0; i < 3 * lengths.size(); ++i) {
    const std::size_t which = i * 2 % lengths.size();
    const BudgetedStep last =
        expect_step(weights_, budget, of_length(lengths[which]), plain[which], peak_bytes);
    EXPECT_EQ(last.plans, 0) << i;
    EXPECT_FALSE(last.is_recorded) << i;
    EXPECT_TRUE(last.is_planned()) << i;
  }
}

TEST_F(BudgetPlanFilesTest, StoresAreUsedIfThereAreAsMany) {
  const Outcome plain = step(weights_, nullptr, masked);
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.6, plain);
  const auto store = std::make_shared<ElsewhereStore>();
  save(weights_, {.peak_bytes = peak_bytes, .stores = {store}}, masked);
  {
    MemoryBudget budget({.peak_bytes = peak_bytes, .stores = {store}});
    budget.load_plans(path_);
    const BudgetedStep last = expect_step(weights_, budget, masked, plain, peak_bytes);
    EXPECT_EQ(last.plans, 0);
    EXPECT_FALSE(last.is_recorded);
    EXPECT_GT(last.stored_bytes, 0);
  }
  {
    MemoryBudget budget({.peak_bytes = peak_bytes});
    budget.load_plans(path_);
    const BudgetedStep last = expect_step(weights_, budget, masked, plain, peak_bytes);
    EXPECT_EQ(last.plans, 1);
    EXPECT_FALSE(last.is_recorded);
    EXPECT_EQ(last.stored_bytes, 0);
  }
  MemoryBudget budget({.peak_bytes = peak_bytes, .stores = {store, store}});
  budget.load_plans(path_);
  for (int i = 0; i < 3; ++i) {
    const BudgetedStep last = expect_step(weights_, budget, masked, plain, peak_bytes);
    EXPECT_EQ(last.is_recorded, i == 0);
    EXPECT_EQ(last.stored_bytes > 0, i > 0);
  }
}

TEST_F(BudgetPlanFilesTest, AStepWithAnUnknownOperatorIsLeftOut) {
  const Outcome plain = step(weights_, nullptr, forward);
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.6, plain);
  save(weights_, {.peak_bytes = peak_bytes}, forward);
  replace("aten::gelu", "gone::gelu");
  MemoryBudget budget({.peak_bytes = peak_bytes});
  budget.load_plans(path_);
  EXPECT_FALSE(budget.trace().has_value());
  for (int i = 0; i < 3; ++i) {
    const BudgetedStep last = expect_step(weights_, budget, forward, plain, peak_bytes);
    EXPECT_EQ(last.is_recorded, i < 2);
    EXPECT_EQ(last.is_planned(), i > 0);
  }
}

TEST_F(BudgetPlanFilesTest, WhatCannotBeLoadedLeavesTheBudgetAsItIs) {
  const Outcome plain = step(weights_, nullptr, forward);
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.6, plain);
  MemoryBudget budget({.peak_bytes = peak_bytes});
  EXPECT_THAT([&] { budget.save_plans(path_); },
              ThrowsMessage<std::runtime_error>(HasSubstr("no step of the budget is known yet")));
  EXPECT_THAT([&] { budget.load_plans(path_); },
              ThrowsMessage<std::runtime_error>(HasSubstr("cannot read " + path_)));
  for (int i = 0; i < 3; ++i) {
    step(weights_, &budget, forward);
  }
  budget.save_plans(path_);
  const std::string saved = text();
  const std::vector<std::pair<std::string, std::string>> edits = {
      {R"("version":1,"device":"cpu")", R"("version":7,"device":"cpu")"},
      {R"("device":"cpu")", R"("device":"cuda")"},
      {R"("device":"cpu")", R"("device":"cpu","colour":"red")"},
      {R"("format":"reprise-plans")", R"("format":"reprise-trace")"},
      {R"("backward_begin":)", R"("backward_begin":9999)"},
      {R"({"result":0,"value":)", R"({"result":0,"value":9999)"},
      {R"({"call":0,)", R"({"call":1,)"},
  };
  const std::vector<std::string> messages = {
      "line 1 has version 7, not 1",
      "[memory_budget] the plans are for the device \"cuda\", and the budget for \"cpu\"",
      "line 1 has an unknown member \"colour\"",
      "line 1 is not the header of a reprise-plans",
      "trace: backward_begin",
      " has a value that does not exist",
      " is not call 0",
  };
  for (std::size_t i = 0; i < edits.size(); ++i) {
    write(saved);
    replace(edits[i].first, edits[i].second);
    EXPECT_THAT([&] { budget.load_plans(path_); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(messages[i])));
    budget.save_plans(path_);
    EXPECT_EQ(text(), saved);
  }
  expect_step(weights_, budget, forward, plain, peak_bytes);
  EXPECT_EQ(budget.last_step()->plans, 0);
}

// Of what a file says, nothing but the plan is taken on trust: a step keeps its bits.
TEST_F(BudgetPlanFilesTest, DamagedFilesAreRefusedOrHarmless) {
  const Outcome plain = step(weights_, nullptr, forward);
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.6, plain);
  save(weights_, {.peak_bytes = peak_bytes}, forward);
  const std::string saved = text();
  std::mt19937 random(11);
  int loaded = 0;
  for (int i = 0; i < cases(150, 40); ++i) {
    std::string damaged = saved;
    for (int change = 0; change < 3; ++change) {
      std::size_t at = random() % damaged.size();
      at = std::min(damaged.find_first_of("0123456789", at), damaged.size() - 1);
      damaged[at] = static_cast<char>('0' + random() % 10);
    }
    write(damaged);
    MemoryBudget budget({.peak_bytes = peak_bytes});
    try {
      budget.load_plans(path_);
    } catch (const std::invalid_argument&) {
      continue;
    }
    ++loaded;
    for (int again = 0; again < 2; ++again) {
      expect_step(weights_, budget, forward, plain, peak_bytes);
    }
    EXPECT_FALSE(budget.report().empty());
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace reprise::testing::budget_plan_files_test
