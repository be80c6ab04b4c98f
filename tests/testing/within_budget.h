// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A forward within a memory budget, or plain, to compare the two.
#ifndef REPRISE_TESTS_TESTING_WITHIN_BUDGET_H_
#define REPRISE_TESTS_TESTING_WITHIN_BUDGET_H_

#include <optional>

#include "reprise/engine/memory_budget.h"

namespace reprise::testing {

// budget: null for a plain forward.
template <class Forward>
auto within(MemoryBudget* budget, const Forward& forward) {
  std::optional<BudgetScope> scope;
  if (budget != nullptr) {
    scope.emplace(*budget);
  }
  return forward();
}

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_TESTING_WITHIN_BUDGET_H_
