// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Memory budgets whose plans may use stores.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/stores.h"
#include "tests/engine/budgeted_steps.h"
#include "tests/testing/elsewhere_store.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing::budget_stores_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Stores = std::vector<std::shared_ptr<ActivationStore>>;
using std::chrono::microseconds;

class BudgetStoresTest : public BudgetedSteps {
 protected:
  void TearDown() override {
    weights_.clear();
    x_.reset();
    BudgetedSteps::TearDown();
  }

  // Whether its results are stored or computed again depends on the machine.
  at::Tensor forward() const {
    at::Tensor h = x_;
    for (const at::Tensor& weight : weights_) {
      const at::Tensor made = at::matmul(at::erfinv(at::tanh(h)), weight).relu();
      h = h + std::get<0>(at::native_dropout(made, 0.3, /*train=*/true));
    }
    return h.square().mean();
  }

  // Saves one mask for each layer, and nothing else. To compute it again takes many times as long
  // as a copy.
  at::Tensor masked() const {
    at::Tensor h = x_.matmul(weights_[0]);
    for (int layer = 1; layer <= 24; ++layer) {
      at::Tensor mask = x_ / layer;
      for (int i = 0; i < 12; ++i) {
        mask = at::erfinv(at::tanh(mask));
      }
      h = at::where(mask > -0.01, h, 0);
    }
    return h.mean();
  }

  Outcome step(MemoryBudget* budget) const {
    return BudgetedSteps::step(
        weights_, budget, [this](const Tensors&) { return has_masks_ ? masked() : forward(); });
  }

  // Runs steps within that part of the plain step's memory. Returns the last one.
  BudgetedStep expect_to_fit(double part, const Stores& stores) {
    const Outcome plain = step(nullptr);
    const std::int64_t peak_bytes = budget_bytes(weights_, part, plain);
    MemoryBudget budget({.peak_bytes = peak_bytes, .stores = stores});
    for (int i = 0; i < cases(5, 3); ++i) {
      SCOPED_TRACE(c10::str("part ", part, ", step ", i));
      const Outcome got = step(&budget);
      EXPECT_LE(got.peak_bytes, peak_bytes);
      EXPECT_EQ(budget.last_step()->is_planned(), i > 0);
      expect_same_bits(got.gradients, plain.gradients);
    }
    EXPECT_EQ(live_frames(), 0);
    report_ = budget.report();
    return *budget.last_step();
  }

  bool has_masks_ = false;
  Tensors weights_ = make_weights(10);
  at::Tensor x_ = torch::randn({2048, kWidth});
  std::string report_;
};

TEST_F(BudgetStoresTest, ResultsThatTakeLongToComputeAgainAreStored) {
  const auto store = std::make_shared<ElsewhereStore>();
  for (const double part : {0.7, 0.5, 0.3}) {
    EXPECT_EQ(expect_to_fit(part, {store}).evicted_bytes, 0);
  }
  has_masks_ = true;
  for (const double part : {0.7, 0.6}) {
    const BudgetedStep last = expect_to_fit(part, {store});
    EXPECT_GT(last.stored_bytes, 0);
    EXPECT_EQ(last.evicted_bytes, 0);
    EXPECT_THAT(report_, HasSubstr(" in stores, runs "));
  }
}

TEST_F(BudgetStoresTest, AStoreThatTakesTimeIsWaitedFor) {
  // Longer than the copy in put(), so that it counts as one beside the computation.
  const auto store = std::make_shared<ElsewhereStore>(microseconds(2000));
  for (const double part : {0.7, 0.5, 0.3}) {
    expect_to_fit(part, {store});
  }
  has_masks_ = true;
  for (const double part : {0.7, 0.6}) {
    EXPECT_GT(expect_to_fit(part, {store}).stored_bytes, 0);
  }
  EXPECT_GT(store->prefetches(), 0);
}

TEST_F(BudgetStoresTest, AfterAStepThatDoesNotFitWithAStorePlansDoWithoutIt) {
  has_masks_ = true;  // all that does not fit is stored, whatever the speed of the machine
  const auto store = std::make_shared<ElsewhereStore>();
  const Outcome plain = step(nullptr);
  const std::int64_t peak_bytes = budget_bytes(weights_, 0.6, plain);
  MemoryBudget budget({.peak_bytes = peak_bytes, .stores = {store}});
  for (int i = 0; i < 3; ++i) {
    step(&budget);
  }
  EXPECT_GT(budget.last_step()->stored_bytes, 0);
  store->set_delay(microseconds(3'600'000'000));  // it holds what it is given
  EXPECT_THROW(step(&budget), BudgetExceededError);
  hooks_internal::release_nodes_of_failed_backward();
  for (int i = 0; i < 2; ++i) {
    const Outcome got = step(&budget);
    EXPECT_LE(got.peak_bytes, peak_bytes);
    expect_same_bits(got.gradients, plain.gradients);
    EXPECT_TRUE(budget.last_step()->is_planned());
    EXPECT_EQ(budget.last_step()->stored_bytes, 0);
  }
}

TEST_F(BudgetStoresTest, AStoreThatTakesNothingIsNotUsed) {
  const BudgetedStep last = expect_to_fit(0.5, {stores::device()});
  EXPECT_EQ(last.stored_bytes, 0);
  EXPECT_THAT(report_, Not(HasSubstr("in stores")));
}

TEST_F(BudgetStoresTest, MasksArePacked) {
  has_masks_ = true;
  const BudgetedStep last = expect_to_fit(0.6, {stores::packed()});
  EXPECT_GT(last.stored_bytes, 0);
}

TEST_F(BudgetStoresTest, StoresWithThreadsKeepTheBudget) {
  for (const double part : {0.6, 0.4}) {
    expect_to_fit(part, {stores::disk({.min_bytes = 0}), stores::packed(),
                         stores::compressed({.min_bytes = 0})});
  }
}

TEST_F(BudgetStoresTest, MoreTimeCanBeSpentOnStoresAsWell) {
  has_masks_ = true;
  const auto store = std::make_shared<ElsewhereStore>();
  MemoryBudget budget({.max_overhead = 0.1, .stores = {store}});
  const Outcome plain = step(nullptr);
  for (int i = 0; i < 4; ++i) {
    expect_same_bits(step(&budget).gradients, plain.gradients);
  }
  EXPECT_GT(budget.last_step()->stored_bytes, 0);
}

TEST_F(BudgetStoresTest, ANullStoreIsAnError) {
  const MemoryBudgetOptions options{.peak_bytes = 1, .stores = {nullptr}};
  EXPECT_THROW(MemoryBudget{options}, std::invalid_argument);
}

}  // namespace
}  // namespace reprise::testing::budget_stores_test
