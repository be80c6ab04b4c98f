// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: step_budget.h
//
// The memory budget that --budget names.
#ifndef CHAR_GPT_STEP_BUDGET_H_
#define CHAR_GPT_STEP_BUDGET_H_

#include <memory>
#include <string>
#include <vector>

#include "measure.h"
#include "options.h"
#include "reprise/engine/memory_budget.h"

namespace char_gpt {

// A fraction is of the memory of the plain run, one of `measurements`. Throws
// UsageError if that is needed and is not there, or if the device has no
// budgets.
std::unique_ptr<reprise::MemoryBudget> make_budget(const Options& options,
                                                   const std::vector<Measurement>& measurements);

// "50 %" or "200.0 MiB".
std::string budget_text(const Options& options);

}  // namespace char_gpt

#endif  // CHAR_GPT_STEP_BUDGET_H_
