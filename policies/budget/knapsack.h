// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The choice of results that spares the most time within a number of bytes: a 0/1 knapsack.
//
// Note [Knapsack]: sets of results are extended one result at a time, those with the most seconds
// per byte first. A set is dropped if another one has no more bytes and no fewer seconds, or if
// even the best fraction of the results that follow cannot bring it to the best known total. The
// sets that remain are few where results have few different sizes, as those of a model's layers do.
// If there are more than a million extensions, which takes more than 20 results, the choice is the
// greedy one, improved by the best exchange of one result for another.
#ifndef REPRISE_POLICIES_BUDGET_KNAPSACK_H_
#define REPRISE_POLICIES_BUDGET_KNAPSACK_H_

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::policies_internal {

struct Weighted {
  std::int64_t bytes = 0;  // not negative
  double seconds = 0;
};

// Returns for each item whether it is chosen: the items with the most seconds in total among those
// with at most `limit_bytes`; see Note [Knapsack]. Items without seconds are not chosen. Depends on
// the arguments only.
[[nodiscard]] std::vector<bool> most_seconds_within(std::span<const Weighted> items,
                                                    std::int64_t limit_bytes);

// Returns the choice that the search falls back on.
[[nodiscard]] std::vector<bool> greedy_seconds_within(std::span<const Weighted> items,
                                                      std::int64_t limit_bytes);

}  // namespace reprise::policies_internal

#endif  // REPRISE_POLICIES_BUDGET_KNAPSACK_H_
