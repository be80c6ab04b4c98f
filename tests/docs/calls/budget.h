// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of docs/budget.md define, but for the store in "/scratch".
#ifndef REPRISE_TESTS_DOCS_CALLS_BUDGET_H_
#define REPRISE_TESTS_DOCS_CALLS_BUDGET_H_

namespace reprise::budget_page {

TEST_F(BudgetPage, TrainsWithinABudget) {
  torch::nn::Sequential model{torch::nn::Linear(8, 8), torch::nn::GELU()};
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  train(model, optimizer, x);
}

TEST_F(BudgetPage, WritesAReport) {
  torch::nn::Sequential model{torch::nn::Linear(8, 8), torch::nn::GELU()};
  MemoryBudget budget({.max_overhead = 0.5});
  BudgetScope scope(budget);
  const at::Tensor loss = model->forward(x).square().mean();
  std::move(scope).close();
  loss.backward();
  write_report(budget);
  EXPECT_FALSE(planner::read_report("step.report").trace.operators.empty());
}

TEST_F(BudgetPage, RecordsAndPlans) {
  torch::nn::Sequential model{torch::nn::Linear(8, 8), torch::nn::GELU()};
  record(model, x);
  plan(planner::read_trace("step.trace"));
}

}  // namespace reprise::budget_page

#endif  // REPRISE_TESTS_DOCS_CALLS_BUDGET_H_
