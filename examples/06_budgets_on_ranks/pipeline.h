// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: pipeline.h
//
// Training as a pipeline in 1F1B order, a stage per rank: each keeps its micro-batches in flight
// within a budget of its own.
#ifndef BUDGETS_ON_RANKS_PIPELINE_H_
#define BUDGETS_ON_RANKS_PIPELINE_H_

#include <ostream>

#include "options.h"
#include "ranks.h"

namespace budgets_on_ranks {

// Trains plainly, in regions and within a budget, and compares bits with one process that has all
// stages. Returns whether they are equal and each rank kept its budget. To be called on all ranks.
// Throws UsageError if there are fewer micro-batches than ranks.
bool train_pipeline(const Options& options, const Ranks& ranks, std::ostream& out);

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_PIPELINE_H_
