// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A trace made from numbers, nearly always a valid one.
#ifndef REPRISE_TESTS_FUZZ_MADE_STEP_H_
#define REPRISE_TESTS_FUZZ_MADE_STEP_H_

#include "reprise/planner/trace.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {

// Returns a step of up to 12 operators of forward and as many of backward.
planner::Trace made_step(Input& input);

}  // namespace reprise::fuzz

#endif  // REPRISE_TESTS_FUZZ_MADE_STEP_H_
