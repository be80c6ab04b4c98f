// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Which inputs of a long chain's regions a store receives, with binomial checkpoints in memory
// between them.
//
// Note [Checkpoints in a store]: after Aupy, Herrmann, Hovland and Robert, "Optimal multistage
// algorithm for adjoint computation", 2016, and Herrmann and Pallez, "H-Revolve", 2020. Forward
// puts the inputs of some regions into the store. Backward brings each of them back once, when it
// comes to the stretch behind it, which it reverses with the checkpoints that memory has room for:
// one of them is the input that has come back. In front of the first stored input the chain's own
// input is there; behind the last one forward may keep checkpoints in memory. Let stretch(i, j, c)
// be the seconds to reverse the regions from i up to j with c checkpoints, all sweeps being
// repetitions, and cost(j) the least for all regions in front of j, with what the stores of their
// inputs cost:
//   cost(j) = min(stretch(0, j, c + 1), min over i of cost(i) + copies(i) + stretch(i, j, c))
// The stretch at which a region costs the least, its input's copies included, is about as long as
// most are in the optimum. Inputs are considered in steps of a small part of that, each the
// cheapest around, and stretches of up to a few times that.
#ifndef REPRISE_PLANNER_CHAIN_STORED_CHECKPOINTS_H_
#define REPRISE_PLANNER_CHAIN_STORED_CHECKPOINTS_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/chain/binomial_schedule.h"
#include "reprise/planner/chain/input_copies.h"
#include "reprise/planner/chain/region_chain.h"

namespace reprise::planner_internal {

struct StoredCheckpoints {
  std::vector<BinomialStretch> stretches;  // that follow each other
  std::vector<RegionId> stored;            // whose inputs the store receives
  double stored_bytes = 0;
  double swept_regions = 0;  // about, by repetitions
};

// Returns the best found; nothing is stored if that does not pay. checkpoints: in memory at once,
// besides the chain's own input; one or more. byte_price: seconds that a byte in the store costs
// beside the copies. Time: linear in the regions.
StoredCheckpoints find_stored_checkpoints(const BinomialChain& chain, const InputCopies& copies,
                                          std::int64_t checkpoints, double byte_price,
                                          std::int64_t most_sweeps);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_STORED_CHECKPOINTS_H_
