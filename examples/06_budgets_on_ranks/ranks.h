// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: ranks.h
//
// The processes of a launcher, and the numbers that they tell each other.
#ifndef BUDGETS_ON_RANKS_RANKS_H_
#define BUDGETS_ON_RANKS_RANKS_H_

#include <cstdint>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace budgets_on_ranks {

struct Ranks {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  int rank = 0;
  int size = 1;
};

// All processes of the launcher. Throws UsageError if there is no launcher, or nothing to connect
// its ranks with.
Ranks meet();

// The largest of the ranks' numbers, on each of them. To be called on all ranks.
std::int64_t largest(std::int64_t number, const Ranks& ranks);

// Whether it is true on all ranks. To be called on all of them.
bool on_all(bool is_true, const Ranks& ranks);

}  // namespace budgets_on_ranks

#endif  // BUDGETS_ON_RANKS_RANKS_H_
