// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Checkpoints of a chain of many regions that take about as long and have inputs of about the same
// size: loops, recurrent nets, simulations.
//
// Note [Binomial checkpoints]: after Griewank and Walther, "Algorithm 799: revolve", 2000. With c
// checkpoints, that of the first region's input included, binomial(c + r, c) equal regions can be
// reversed if none runs more than r times again. A stretch is swept, its input of one region is
// kept; what is behind it is reversed with one checkpoint less, then what is in front of it with as
// many as before. Regions that take longer count as several.
#ifndef REPRISE_PLANNER_CHAIN_BINOMIAL_SCHEDULE_H_
#define REPRISE_PLANNER_CHAIN_BINOMIAL_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "reprise/planner/chain/region_chain.h"

namespace reprise::planner_internal {

struct BinomialChain {
  std::vector<double> seconds;  // by region: to run it again
  // By region: whether its inputs may be kept from forward on. Any may be when they are made again.
  std::vector<bool> may_be_kept;
};

// Regions that are reversed with so many checkpoints, that of the first one's input included.
struct BinomialStretch {
  RegionId begin = 0;
  RegionId end = 0;
  std::int64_t checkpoints = 0;
  bool is_forward = false;  // forward is the sweep over it
};

// Returns, by region, the one from which on its inputs are kept, once backward has come to it; the
// number of regions: from forward on. The stretches follow each other. Time: linear in the regions.
std::vector<RegionId> binomial_schedule(const BinomialChain& chain,
                                        const std::vector<BinomialStretch>& stretches);

// The same of the whole chain. checkpoints: besides the inputs of the first region.
std::vector<RegionId> binomial_schedule(const BinomialChain& chain, std::int64_t checkpoints);

// Returns how often the schedule sweeps over a region at most, of so many equal ones.
std::int64_t sweeps_of_chain(std::int64_t regions, std::int64_t checkpoints);

// Returns, by number of equal regions up to `regions`, how many are swept over if all sweeps are
// repetitions; infinity if one is swept over more than `most_sweeps` times. checkpoints: one or
// more, with that of the first region.
std::vector<double> swept_regions(std::int64_t regions, std::int64_t checkpoints,
                                  std::int64_t most_sweeps);

}  // namespace reprise::planner_internal

#endif  // REPRISE_PLANNER_CHAIN_BINOMIAL_SCHEDULE_H_
