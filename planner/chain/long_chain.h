// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Plans of a chain of any number of regions, by binomial checkpoints: in memory alone, or with
// others in a store.
#ifndef REPRISE_PLANNER_CHAIN_LONG_CHAIN_H_
#define REPRISE_PLANNER_CHAIN_LONG_CHAIN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "reprise/planner/chain/binomial_schedule.h"
#include "reprise/planner/chain/input_copies.h"
#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/chain/stored_checkpoints.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

class LongChain {
 public:
  // Both must outlive it.
  LongChain(const planner::Simulator& simulator, const TraceFacts& facts, RegionChain chain);

  std::int64_t regions() const { return static_cast<std::int64_t>(chain_.regions.size()); }
  // Returns the bytes of a region's inputs, on average.
  std::int64_t checkpoint_bytes() const { return input_bytes_; }

  // Returns the most checkpoints that there may be room for, besides the inputs of the first
  // region.
  std::int64_t most_checkpoints(std::int64_t peak_bytes) const;
  // Returns the fewest with which a step does not take too long to be of use; `most` at most.
  std::int64_t least_checkpoints(std::int64_t most) const;

  Plan plan(std::int64_t checkpoints) const;

  // The same with some inputs in the simulator's store of that number. Returns none if that does
  // not pay, or if the step takes too long nevertheless.
  std::optional<Plan> plan_with_store(std::int64_t checkpoints, int store) const;

 private:
  StoredCheckpoints stored_within_capacity(std::int64_t checkpoints, int store) const;
  Plan plan_of(const std::vector<RegionId>& kept_since) const;

  const planner::Simulator& simulator_;
  const TraceFacts& facts_;
  const RegionChain chain_;
  BinomialChain binomial_;
  std::vector<InputCopies> copies_;  // by store
  std::int64_t base_bytes_ = 0;
  std::int64_t input_bytes_ = 0;
};

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_LONG_CHAIN_H_
