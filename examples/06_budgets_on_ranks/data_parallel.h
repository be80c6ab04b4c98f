// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: data_parallel.h
//
// Training on parts of a batch, whose gradients LibTorch's own c10d::Reducer averages while
// backward goes on, as DistributedDataParallel does in Python.
#ifndef BUDGETS_ON_RANKS_DATA_PARALLEL_H_
#define BUDGETS_ON_RANKS_DATA_PARALLEL_H_

#include <ostream>

#include "options.h"
#include "ranks.h"

namespace budgets_on_ranks {

// Trains plainly, in regions and within a budget, and compares bits: with one process if there are
// no more than two ranks, whose sums have one order only, otherwise with the plain run. Returns
// whether they are equal and each rank kept its budget. To be called on all ranks.
bool train_data_parallel(const Options& options, const Ranks& ranks, std::ostream& out);

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_DATA_PARALLEL_H_
