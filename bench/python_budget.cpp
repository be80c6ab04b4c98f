// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Our memory budget for the eager steps of a Python process: called through ctypes, and the
// backward through torch.ops, by bench/side_by_side/budget.py. Linked into one library with
// python_memory.cpp, so that the budget and the script share one counter, also where Reprise's
// libraries are static.
#include <torch/csrc/autograd/autograd.h>
#include <torch/library.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "reprise/engine/memory_budget.h"

namespace {

struct PythonBudget {
  explicit PythonBudget(std::int64_t peak_bytes) : budget({.peak_bytes = peak_bytes}) {}

  reprise::MemoryBudget budget;
  std::optional<reprise::BudgetScope> scope = std::nullopt;
};

// An exception must not reach ctypes. Returns its message, null if there is none.
template <class Function>
const char* error_of(const Function& function) {
  try {
    function();
    return nullptr;
  } catch (const std::exception& error) {
    static thread_local std::string message;
    message = error.what();
    return message.c_str();
  }
}

void backward(const at::Tensor& loss) { torch::autograd::backward({loss}, {}); }

TORCH_LIBRARY(reprise_bench, library) { library.def("backward(Tensor loss) -> ()", &backward); }

}  // namespace

extern "C" {

// As class LastStep in budget.py declares it. Without a plan predicted_peak_bytes is -1.
struct RepriseLastStep {
  std::int64_t peak_bytes;
  std::int64_t evicted_bytes;
  std::int64_t predicted_peak_bytes;
  double predicted_seconds;
  double plain_seconds;
  double bound_seconds;
};

// `peak_bytes` is above 0.
[[gnu::visibility("default")]] PythonBudget* reprise_make_budget(std::int64_t peak_bytes) {
  return new PythonBudget(peak_bytes);
}

[[gnu::visibility("default")]] void reprise_free_budget(PythonBudget* budget) { delete budget; }

[[gnu::visibility("default")]] const char* reprise_begin_budget_scope(PythonBudget* budget) {
  return error_of([&] { budget->scope.emplace(budget->budget); });
}

[[gnu::visibility("default")]] const char* reprise_close_budget_scope(PythonBudget* budget) {
  return error_of([&] {
    std::move(*budget->scope).close();
    budget->scope.reset();
  });
}

// For a forward that has ended with an exception: the scope ends as it would in C++.
[[gnu::visibility("default")]] const char* reprise_abandon_budget_scope(PythonBudget* budget) {
  struct Unwound {
    ~Unwound() noexcept(false) { scope.reset(); }

    std::optional<reprise::BudgetScope>& scope;
  };
  struct PythonError {};
  return error_of([&] {
    try {
      const Unwound unwound{budget->scope};
      throw PythonError();
    } catch (const PythonError&) {
    }
  });
}

// Returns false if no step has ended.
[[gnu::visibility("default")]] bool reprise_last_budgeted_step(const PythonBudget* budget,
                                                               RepriseLastStep* step) {
  const std::optional<reprise::BudgetedStep> last = budget->budget.last_step();
  if (last) {
    *step = {.peak_bytes = last->peak_bytes,
             .evicted_bytes = last->evicted_bytes,
             .predicted_peak_bytes = last->predicted_peak_bytes.value_or(-1),
             .predicted_seconds = last->predicted_seconds,
             .plain_seconds = last->plain_seconds,
             .bound_seconds = last->bound_seconds};
  }
  return last.has_value();
}

}  // extern "C"
