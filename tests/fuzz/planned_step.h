// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A trace that is valid: its plans keep what the planner promises of them.
#ifndef REPRISE_TESTS_FUZZ_PLANNED_STEP_H_
#define REPRISE_TESTS_FUZZ_PLANNED_STEP_H_

#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/trace.h"

namespace reprise::fuzz {

// Two stores: one that copies beside the computation, and one that waits.
std::vector<planner::StoreOption> some_stores();

// Ends the program unless `trace` is the same after it has been written and read.
void check_text(const planner::Trace& trace);

// Ends the program unless plans of `trace` are as documented. No effect for a trace that is too
// large for a fuzzer.
void check_plans(const planner::Trace& trace);

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_PLANNED_STEP_H_
