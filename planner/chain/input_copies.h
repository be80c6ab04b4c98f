// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What it takes to put the inputs of a chain's regions into a store, and to bring them back.
#ifndef REPRISE_PLANNER_CHAIN_INPUT_COPIES_H_
#define REPRISE_PLANNER_CHAIN_INPUT_COPIES_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/chain/region_chain.h"
#include "reprise/planner/plan.h"
#include "reprise/planner/schedule/execution.h"
#include "reprise/planner/simulator.h"

namespace reprise::planner_internal {

struct InputCopies {
  // Of the simulator's store of that number.
  InputCopies(const planner::Simulator& simulator, const RegionChain& chain, int store);

  // By region:
  std::vector<double> put_seconds;  // infinity if the store does not take its inputs
  std::vector<double> get_seconds;
  std::vector<double> bytes;
  std::vector<double> retained_bytes;   // of these, in the step's memory while the rest is away
  std::vector<double> forward_seconds;  // of its own, in which other regions' copies may hide
  bool is_overlapped = false;           // whether they do
};

// Puts the inputs of `region` into the store. Those without bytes stay.
void put_inputs(Plan& plan, const Trace& trace, const Region& region, int store);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_INPUT_COPIES_H_
